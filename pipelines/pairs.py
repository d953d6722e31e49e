"""Stage `pairs`: see `--help`, and src/coevolve/stages/pairs/stage.py."""

from coevolve.stages.pairs.stage import main
from coevolve.stages.running import run_iteration

if __name__ == "__main__":
    run_iteration(main)
