"""Stage `generate`: see `--help`, and src/coevolve/stages/generate/stage.py."""

from coevolve.stages.generate.stage import main
from coevolve.stages.running import run_iteration

if __name__ == "__main__":
    run_iteration(main)
