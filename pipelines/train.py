"""Stage `train`: see src/coevolve/stages/train/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "train", *sys.argv[1:]])
