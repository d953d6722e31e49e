"""Stage `explore`: see `--help`, and src/coevolve/stages/explore/stage.py."""

from coevolve.stages.explore.stage import main
from coevolve.stages.running import run_iteration

if __name__ == "__main__":
    run_iteration(main)
