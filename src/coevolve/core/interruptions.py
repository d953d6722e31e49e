"""Interruptions end an episode, an exploration or a candidate although no agent decided it. They are counted by their cause.

The cause is the text of whoever ended it: an exception of the environment, a limit, or a refusal of the model's server. How a
killed training goes on is in stages/train/saving.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from coevolve.core.errors import CoevolveError
from coevolve.core.trajectories import INTERRUPTED, End
from coevolve.core.untrusted import one_line

SERIOUS = 0.05  # share of interruptions above which a result begins with them
HOPELESS = 0.95  # share of explorations or candidates that an error ends, from which it ends the command too
SHOWN = 300  # characters of a cause

# a part of a cause → what to do about it; the texts of exceptions are Python's
REMEDIES = {
    "signal only works in main thread": "coevolve plays episodes in threads; use a deadline that needs no signal",
    "There is no current event loop": (
        "coevolve plays each session in a thread of its own; call asyncio.run, or make an event loop in `reset`"
    ),
    "no answer within": "let the call end, or allow it more time (max_seconds)",
}


def named(error: BaseException) -> str:
    """The text of ``error`` with its type, which a CoevolveError does not need."""
    try:
        text = str(error)
    except Exception:
        text = ""
    kind = [] if isinstance(error, CoevolveError) else [type(error).__name__]
    return ": ".join([*kind, *filter(None, [text])])


@contextmanager
def contained(causes: list[str]) -> Iterator[None]:
    """Run a block of the environment's code. An exception ends only the block, and adds its text to ``causes``."""
    try:
        yield
    except (Exception, SystemExit) as error:
        causes.append(named(error))


def counted(causes: Sequence[str], total: int, what: str, became: str = "broke") -> list[str]:
    """A note on the interruptions of some of ``total`` things, with the most frequent cause; empty without any."""
    if not causes:
        return []
    cause, often = min(Counter(causes).items(), key=lambda item: (-item[1], item[0]))
    most = f", {often} of them by" if often < len(causes) else ""
    remedy = remedy_for(cause)
    return [
        f"{len(causes)} of {total} {what} {became}{most}: {one_line(cause, SHOWN)}{f'; {remedy}' if remedy else ''}"
    ]


def interrupted(ends: Iterable[End]) -> list[str]:
    """Notes on the interrupted ones of all episodes, by what became of them."""
    listed = list(ends)
    notes = []
    for reason, became in INTERRUPTED.items():
        causes = [cause for stop, cause in listed if stop == reason]
        notes += counted(causes, len(listed), "episodes", became)
    return notes


def serious(ends: Sequence[End]) -> bool:
    """Whether a result must begin with the interruptions."""
    return sum(reason in INTERRUPTED for reason, _ in ends) > SERIOUS * len(ends)


def hopeless(causes: Sequence[str], total: int, what: str) -> None:
    """Raise a CoevolveError if exceptions of the environment ended nearly all of ``total`` things."""
    if causes and len(causes) >= HOPELESS * total:
        raise CoevolveError(
            f"{counted(causes, total, what)[0]}; `coevolve env check` finds such faults of an environment"
        )


def remedy_for(cause: str) -> str:
    """What to do about a known ``cause``; empty for others."""
    return next((remedy for part, remedy in REMEDIES.items() if part in cause), "")
