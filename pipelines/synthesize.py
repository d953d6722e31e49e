"""Stage `synthesize`: see `--help`, and src/coevolve/stages/synthesize/stage.py."""

from coevolve.stages.running import run
from coevolve.stages.synthesize.stage import main

if __name__ == "__main__":
    run(main)
