"""What every script in pipelines/ shares: arguments, one-line errors, and a clean end on Ctrl-C and SIGTERM."""

import argparse
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from coevolve.errors import CoevolveError
from coevolve.params import Params, load

OUT_OF_MEMORY = (
    "out of memory; in params.yaml lower train.micro_batch, policy.max_tokens or train.vllm.memory, set "
    "train.gradient_checkpointing, train.lora.enabled or policy.dtype: bfloat16, or shard by launch.sharding"
)


def run(main: Callable[[Params], None], doc: str | None) -> NoReturn:
    """Run a stage that belongs to no iteration; ``doc`` is the script's docstring, for --help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    guard(lambda: main(load()))


def run_iteration(main: Callable[[Params, int], int | None], doc: str | None) -> NoReturn:
    """Run a stage of iteration ``t``, the script's one argument."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("t", type=int, help="the iteration, as in `iterations` of params.yaml")
    t = parser.parse_args().t
    guard(lambda: main(load(), t))


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
