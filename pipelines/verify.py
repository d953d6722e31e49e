"""Stage `verify`: see `--help`, and src/coevolve/stages/verify/stage.py."""

from coevolve.stages.running import run_iteration
from coevolve.stages.verify.stage import main

if __name__ == "__main__":
    run_iteration(main)
