"""Stage `verify`: see `--help`, and src/coevolve/stages/verify/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.verify.stage import main

if __name__ == "__main__":
    run(main)
