"""A line of ``coevolve doctor``."""

from dataclasses import dataclass

WORKS, ABSENT, BROKEN = "ok", "-", "BROKEN"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``state`` is WORKS, ABSENT or BROKEN; ``remedy`` is what to type."""

    name: str
    state: str
    text: str
    remedy: str = ""
