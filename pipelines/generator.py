"""Stage `generator`: see `--help`, and src/coevolve/stages/generator/stage.py."""

from coevolve.stages.generator.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
