"""Stage `generate`: see src/coevolve/stages/generate/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "generate", *sys.argv[1:]])
