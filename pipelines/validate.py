"""Stage `validate`: see src/coevolve/stages/validate/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "validate", *sys.argv[1:]])
