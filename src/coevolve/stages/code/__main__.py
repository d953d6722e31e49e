"""`python -m coevolve.stages.code` runs stage `code`: a script called code.py would hide the standard library's module."""

from coevolve.stages.code.stage import main
from coevolve.stages.running import run

if __name__ == "__main__":
    run(main)
