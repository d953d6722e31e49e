"""``coevolve stage``: run one stage of the loop, as dvc.yaml and the scripts in pipelines/ do."""

import argparse
import inspect
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from coevolve.core import launch
from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import whole
from coevolve.core.stage_seconds import note_seconds, seconds
from coevolve.stages.code.digest import check, names
from coevolve.stages.schema import Params, load

HELP = """
You rarely need this command: `dvc repro` calls it for every stage of dvc.yaml. Use it to debug a stage. The stage's input
files must exist.

  coevolve stage train 0
  coevolve stage report
"""

TRACKED = frozenset({"warm", "pairs", "train", "generate", "evaluate", "report"})  # trackers follow the files of these


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a stage, as in dvc.yaml")
    parser.add_argument(
        "t", nargs="?", type=whole, metavar="T", help="the iteration, if the stage runs once per iteration"
    )


def run(args: argparse.Namespace) -> int | None:
    """Read params.yaml, check the stage's digest, call the stage's function, and note the seconds that it took."""
    name, t, stages = args.name, args.t, ["code", *names()]
    if name not in stages:
        raise CoevolveError(f"no stage {name!r}; expected one of: {', '.join(stages)}")
    main: Callable[..., int | None] = import_module(f"coevolve.stages.{name}.stage").main
    iterated = len(inspect.signature(main).parameters) == 2
    if iterated and t is None:
        raise CoevolveError(f"stage {name} needs an iteration, for example `coevolve stage {name} 0`")
    if not iterated and t is not None:
        raise CoevolveError(f"stage {name} takes no iteration; run `coevolve stage {name}`")
    params = load()
    arguments = (params,) if t is None else (params, t)
    label = name if t is None else f"{name}/{t}"
    if launch.inside():
        with _following(params, label) if launch.is_main() else nullcontext():
            return main(*arguments)
    if name != "code":
        check(name, params)
        last = seconds().get(label)
        print(label if last is None else f"{label}, which took {last:.0f} s last time", flush=True)
    with _following(params, label) if name in TRACKED and launch.machine() == 0 else nullcontext():
        began = time.monotonic()
        code = main(*arguments)
        took = time.monotonic() - began
        note_seconds(label, took)
    return code


def _following(params: Params, label: str) -> AbstractContextManager[None]:
    from coevolve.tracking.follow import following  # it takes a second, and few stages need it

    return following(params, label)
