"""Stage `tasks`: see src/coevolve/stages/tasks/stage.py."""

import sys

from coevolve.cli import main

if __name__ == "__main__":
    main(["stage", "tasks", *sys.argv[1:]])
