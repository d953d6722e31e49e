"""Stage `replay`: see src/coevolve/stages/replay/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "replay", *sys.argv[1:]])
