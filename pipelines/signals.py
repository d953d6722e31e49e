"""Stage `signals`: see `--help`, and src/coevolve/stages/signals/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.signals.stage import main

if __name__ == "__main__":
    run(main)
