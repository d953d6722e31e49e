"""Stage `tasks`: see `--help`, and src/coevolve/stages/tasks/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.tasks.stage import main

if __name__ == "__main__":
    run(main)
