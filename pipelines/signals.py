"""Stage `signals`: see src/coevolve/stages/signals/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "signals", *sys.argv[1:]])
