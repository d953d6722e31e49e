"""Stage `report`: see `--help`, and src/coevolve/stages/report/stage.py."""

from coevolve.stages.report.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
