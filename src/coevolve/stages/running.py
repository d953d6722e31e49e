"""What every script in pipelines/ does: read the arguments and params.yaml, check the stage's digest, and run the stage."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from coevolve.core import launch
from coevolve.core.arithmetic import pin
from coevolve.core.guard import guard
from coevolve.core.stage_seconds import note_seconds
from coevolve.stages.code.digest import check, stage_of
from coevolve.stages.params import Params, load


def run(main: Callable[[Params], int | None]) -> NoReturn:
    """Run a stage that belongs to no iteration. The docstring of its module is the text of --help."""
    _parser(main).parse_args()
    guard(lambda: _run(main))


def run_iteration(main: Callable[[Params, int], int | None]) -> NoReturn:
    """Run a stage of iteration ``t``, the script's one argument."""
    parser = _parser(main)
    parser.add_argument("t", type=int, help="the iteration, as in `iterations` of params.yaml")
    t = parser.parse_args().t
    guard(lambda: _run(main, t))


def _parser(main: Callable[..., object]) -> argparse.ArgumentParser:
    text = sys.modules[main.__module__].__doc__
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def _run(main: Callable[..., int | None], *t: int) -> int | None:
    """Check the stage's digest, run the stage with the parameters, and note the seconds that it took."""
    pin()  # no stage imports torch at its top, so this comes before torch
    params, stage = load(), stage_of(main)
    if launch.inside():
        return main(params, *t)
    if stage != "code":
        check(stage, params)
    began = time.monotonic()
    code = main(params, *t)
    note_seconds("/".join(map(str, (stage, *t))), time.monotonic() - began)
    return code
