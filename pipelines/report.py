"""Stage `report`: see src/coevolve/stages/report/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "report", *sys.argv[1:]])
