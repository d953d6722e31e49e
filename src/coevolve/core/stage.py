"""What every script in pipelines/ shares: arguments, one-line errors, and a clean end on Ctrl-C and SIGTERM."""

import argparse
import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from coevolve.core import launch
from coevolve.core.arithmetic import pin
from coevolve.core.dvc import experiment_name
from coevolve.core.errors import CoevolveError
from coevolve.core.io import decode, parse
from coevolve.core.params import Params
from coevolve.core.scratch import scratch
from coevolve.core.terminal import plain
from coevolve.core.yaml_files import load

SECONDS = "seconds.jsonl"  # in the scratch folder
# how libraries say that nothing more can be written, in errors of their own
FULL = (
    "No space left",
    "os error 28",
    "disk is full",
    "File too large",
    "PytorchStreamWriter failed",
    "unexpected pos ",
)

OUT_OF_MEMORY = (
    "out of memory; in params.yaml lower train.micro_batch, policy.episode_tokens or train.vllm.memory, set "
    "train.gradient_checkpointing, train.lora.enabled or policy.dtype: bfloat16, or shard by launch.sharding"
)


def run(main: Callable[[Params], None], doc: str | None) -> NoReturn:
    """Run a stage that belongs to no iteration; ``doc`` is the script's docstring, for --help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    guard(lambda: _stage("", lambda: main(load())))


def run_iteration(main: Callable[[Params, int], int | None], doc: str | None) -> NoReturn:
    """Run a stage of iteration ``t``, the script's one argument."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("t", type=int, help="the iteration, as in `iterations` of params.yaml")
    t = parser.parse_args().t
    guard(lambda: _stage(f"/{t}", lambda: main(load(), t)))


def _stage(place: str, action: Callable[[], int | None]) -> int | None:
    pin()  # no script imports torch at its top, so this comes before torch
    return timed(place, action)


@dataclass(frozen=True, slots=True)
class Note:
    """A line of SECONDS."""

    experiment: str
    stage: str
    seconds: float


def timed(place: str, action: Callable[[], int | None]) -> int | None:
    """``action``; the seconds it took are noted in the scratch folder for the trackers, never in a stage's output."""
    began = time.monotonic()
    code = action()
    if not launch.inside():
        note = Note(experiment_name(), f"{Path(sys.argv[0]).stem}{place}", round(time.monotonic() - began, 2))
        with suppress(OSError):  # a note, for which no stage that has done its work fails
            scratch().mkdir(parents=True, exist_ok=True)
            with (scratch() / SECONDS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(note)) + "\n")
    return code


def seconds(experiment: str = "") -> dict[str, float]:
    """What the stages of a DVC experiment, this one by default, took when they last ran here, by ``stage/t``.

    Torn lines are no notes.
    """
    experiment = experiment or experiment_name()
    found: dict[str, float] = {}
    with suppress(OSError):
        for line in (scratch() / SECONDS).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, CoevolveError):
                note = parse(Note, decode(line), SECONDS)
                if note.experiment == experiment:
                    found[note.stage] = note.seconds
    return found


def guard(action: Callable[[], int | None]) -> NoReturn:
    """Run ``action`` and exit: 0, what it returns, 130 for an interrupt, 1 for a mistake or a lack that a user can mend, and
    in silence with 141 where nobody reads on.

    Those are one line: a CoevolveError, a file or folder that cannot be read or written, a disk or a memory that is full.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = action() or 0
        sys.stdout.flush()
    except CoevolveError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _unheard():
            sys.exit(128 + signal.SIGPIPE)
        if not (said := _lack(error)):
            raise
        print(f"error: {said}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        code = 130
    sys.exit(code)


def _unheard() -> bool:
    """Whether nobody reads what is printed any more, as behind ``| head``: what is left is then let go."""
    out = select.poll()
    out.register(sys.stdout, select.POLLOUT)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in out.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _lack(error: Exception) -> str:
    """What this machine lacks, and what to do, if that is what ``error`` says; else nothing."""
    reason = plain((str(error) or type(error).__name__).splitlines()[0][:200])
    if _out_of_memory(error):
        return f"{OUT_OF_MEMORY} ({reason})"
    code = error.errno if isinstance(error, OSError) else None
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or any(words in str(error) for words in FULL):
        place = error.filename if isinstance(error, OSError) and error.filename else "a file"
        return f"{place} cannot be written: the disk is full ({reason}); make room, and run the same command again"
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename else reason
        return f"{what}; mend it or its permissions, and run the same command again"
    return ""


def _out_of_memory(error: Exception) -> bool:
    """Whether a device, or this machine, has no memory left (torch raises a kind of RuntimeError)."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
