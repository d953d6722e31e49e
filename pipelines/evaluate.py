"""Stage `evaluate`: see `--help`, and src/coevolve/stages/evaluate/stage.py."""

from coevolve.stages.evaluate.stage import main
from coevolve.stages.running import run_iteration

if __name__ == "__main__":
    run_iteration(main)
