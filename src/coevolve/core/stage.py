"""What every script in pipelines/ shares: arguments, one-line errors, and a clean end on Ctrl-C and SIGTERM."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from coevolve.core import launch
from coevolve.core.dvc import experiment_name
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects
from coevolve.core.params import Params, load
from coevolve.core.scratch import scratch

SECONDS = "seconds.jsonl"  # in the scratch folder

OUT_OF_MEMORY = (
    "out of memory; in params.yaml lower train.micro_batch, policy.episode_tokens or train.vllm.memory, set "
    "train.gradient_checkpointing, train.lora.enabled or policy.dtype: bfloat16, or shard by launch.sharding"
)


def run(main: Callable[[Params], None], doc: str | None) -> NoReturn:
    """Run a stage that belongs to no iteration; ``doc`` is the script's docstring, for --help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    guard(lambda: timed("", lambda: main(load())))


def run_iteration(main: Callable[[Params, int], int | None], doc: str | None) -> NoReturn:
    """Run a stage of iteration ``t``, the script's one argument."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("t", type=int, help="the iteration, as in `iterations` of params.yaml")
    t = parser.parse_args().t
    guard(lambda: timed(f"/{t}", lambda: main(load(), t)))


def timed(place: str, action: Callable[[], int | None]) -> int | None:
    """``action``; the seconds it took are noted in the scratch folder for the trackers, never in a stage's output."""
    began = time.monotonic()
    code = action()
    if not launch.inside():
        line = {"experiment": experiment_name(), "stage": f"{Path(sys.argv[0]).stem}{place}"}
        scratch().mkdir(parents=True, exist_ok=True)
        with (scratch() / SECONDS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "seconds": round(time.monotonic() - began, 2)}) + "\n")
    return code


def seconds() -> dict[str, float]:
    """What the stages of this DVC experiment took when they last ran here, by ``stage/t``."""
    file = scratch() / SECONDS
    rows = [row for _, row in read_jsonl_objects(file)] if file.exists() else []
    return {row["stage"]: row["seconds"] for row in rows if row["experiment"] == experiment_name()}


def guard(action: Callable[[], int | None]) -> NoReturn:
    """Run ``action`` and exit: 0, what it returns, 1 for a CoevolveError (one line), 130 for an interrupt."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = action() or 0
    except CoevolveError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        print(f"error: {OUT_OF_MEMORY} ({(str(error) or type(error).__name__).splitlines()[0][:200]})", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        code = 130
    sys.exit(code)


def _out_of_memory(error: Exception) -> bool:
    """Whether a device, or this machine, has no memory left (torch raises a kind of RuntimeError)."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
