"""Stage `explore`: see `--help`, and src/coevolve/stages/explore/stage.py."""

from coevolve.stages.explore.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
