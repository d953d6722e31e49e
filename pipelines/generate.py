"""Stage `generate`: see `--help`, and src/coevolve/stages/generate/stage.py."""

from coevolve.stages.generate.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
