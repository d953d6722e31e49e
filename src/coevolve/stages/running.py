"""Run a stage: read params.yaml, check the stage's digest, call the stage's function, and note the seconds that it took.

`coevolve stage NAME T` comes here, and so do the scripts in pipelines/.
"""

import inspect
import time
from collections.abc import Callable
from importlib import import_module

from coevolve.core import launch
from coevolve.core.errors import CoevolveError
from coevolve.core.stage_seconds import note_seconds, seconds
from coevolve.stages.code.digest import check
from coevolve.stages.schema import load


def run_stage(name: str, t: int | None) -> int | None:
    """Run the stage called ``name``, in iteration ``t`` if it belongs to one."""
    main: Callable[..., int | None] = import_module(f"coevolve.stages.{name}.stage").main
    iterated = len(inspect.signature(main).parameters) == 2
    if iterated and t is None:
        raise CoevolveError(f"stage {name} needs an iteration, for example `coevolve stage {name} 0`")
    if not iterated and t is not None:
        raise CoevolveError(f"stage {name} takes no iteration; run `coevolve stage {name}`")
    params = load()
    arguments = (params,) if t is None else (params, t)
    if launch.inside():
        return main(*arguments)
    label = name if t is None else f"{name}/{t}"
    if name != "code":
        check(name, params)
        last = seconds().get(label)
        print(label if last is None else f"{label}, which took {last:.0f} s last time", flush=True)
    began = time.monotonic()
    code = main(*arguments)
    note_seconds(label, time.monotonic() - began)
    return code
