"""Stage `verify`: see src/coevolve/stages/verify/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "verify", *sys.argv[1:]])
