"""Stage `evaluate`: see `--help`, and src/coevolve/stages/evaluate/stage.py."""

from coevolve.stages.evaluate.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
