"""Stage `base`: see `--help`, and src/coevolve/stages/base/stage.py."""

from coevolve.stages.base.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
