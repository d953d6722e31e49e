"""Stage `warm`: see src/coevolve/stages/warm/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "warm", *sys.argv[1:]])
