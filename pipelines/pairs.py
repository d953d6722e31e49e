"""Stage `pairs`: see src/coevolve/stages/pairs/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "pairs", *sys.argv[1:]])
