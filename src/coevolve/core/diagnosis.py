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


def judged(name: str, works: object, text: str, remedy: str, wanted: object = True) -> Diagnosis:
    """The line of something that works or does not. If it does not, it is BROKEN where ``wanted``, and ABSENT elsewhere."""
    return Diagnosis(name, WORKS, text) if works else Diagnosis(name, BROKEN if wanted else ABSENT, text, remedy)
