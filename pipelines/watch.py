"""Stage `watch`: see `--help`, and src/coevolve/stages/watch/stage.py."""

from coevolve.stages.running import run_iteration
from coevolve.stages.watch.stage import main

if __name__ == "__main__":
    run_iteration(main)
