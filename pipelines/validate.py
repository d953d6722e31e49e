"""Stage `validate`: see `--help`, and src/coevolve/stages/validate/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.validate.stage import main

if __name__ == "__main__":
    run(main)
