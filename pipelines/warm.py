"""Stage `warm`: see `--help`, and src/coevolve/stages/warm/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.warm.stage import main

if __name__ == "__main__":
    run(main)
