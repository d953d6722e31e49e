"""Stage `train`: see `--help`, and src/coevolve/stages/train/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.train.stage import main

if __name__ == "__main__":
    run(main)
