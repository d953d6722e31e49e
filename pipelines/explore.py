"""Stage `explore`: see src/coevolve/stages/explore/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "explore", *sys.argv[1:]])
