"""Stage `synthesize`: see src/coevolve/stages/synthesize/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "synthesize", *sys.argv[1:]])
