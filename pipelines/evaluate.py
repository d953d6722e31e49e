"""Stage `evaluate`: see src/coevolve/stages/evaluate/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "evaluate", *sys.argv[1:]])
