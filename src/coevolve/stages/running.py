"""Run a stage: read params.yaml, check the stage's digest, call the stage's function, and note the seconds that it took.

`coevolve stage NAME T` and the scripts in pipelines/ both come here.
"""

import argparse
import inspect
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

from coevolve.core import launch
from coevolve.core.arithmetic import pin
from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.core.stage_seconds import note_seconds, seconds
from coevolve.stages.code.digest import check, stage_of
from coevolve.stages.schema import load


def run(main: Callable[..., int | None]) -> NoReturn:
    """Run a stage as a script. The docstring of its module is the text of --help, and its argument ``t``, if any, an iteration."""
    text = sys.modules[main.__module__].__doc__
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if _needs_iteration(main):
        parser.add_argument("t", type=int, help="the iteration, as in `iterations` of params.yaml")
    arguments = parser.parse_args()
    guard(lambda: _run(main, *vars(arguments).values()))


def run_stage(name: str, t: int | None) -> int | None:
    """Run the stage called ``name``, in iteration ``t`` if it belongs to one."""
    main = import_module(f"coevolve.stages.{name}.stage").main
    if _needs_iteration(main) and t is None:
        raise CoevolveError(f"stage {name} needs an iteration, for example `coevolve stage {name} 0`")
    if not _needs_iteration(main) and t is not None:
        raise CoevolveError(f"stage {name} takes no iteration; run `coevolve stage {name}`")
    return _run(main) if t is None else _run(main, t)


def _needs_iteration(main: Callable[..., object]) -> bool:
    return len(inspect.signature(main).parameters) == 2


def _run(main: Callable[..., int | None], *t: int) -> int | None:
    """Check the stage's digest, run the stage with the parameters, and note the seconds that it took."""
    pin()  # no stage imports torch at its top, so this comes before torch
    params, stage = load(), stage_of(main)
    if launch.inside():
        return main(params, *t)
    name = "/".join(map(str, (stage, *t)))
    if stage != "code":
        check(stage, params)
        last = seconds().get(name)
        print(name if last is None else f"{name}, which took {last:.0f} s last time", flush=True)
    began = time.monotonic()
    code = main(params, *t)
    note_seconds(name, time.monotonic() - began)
    return code
