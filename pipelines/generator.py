"""Stage `generator`: see src/coevolve/stages/generator/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "generator", *sys.argv[1:]])
