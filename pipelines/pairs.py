"""Stage `pairs`: see `--help`, and src/coevolve/stages/pairs/stage.py."""

from coevolve.stages.pairs.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
