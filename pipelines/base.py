"""Stage `base`: see src/coevolve/stages/base/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "base", *sys.argv[1:]])
