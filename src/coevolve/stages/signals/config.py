"""Section `signals`: when a weakness becomes a signal."""

from typing import Annotated

from pydantic import Field

from coevolve.core.section import Section, one_of

KINDS = ("forgetting", "boundary", "rare", "unsolved")  # the names in `KINDS` of extract.py


class Signals(Section):
    window: Annotated[int, Field(ge=2)] = 5
    """Visits of a task that forgetting compares (W)."""
    rare_threshold: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """Share of all tool patterns, in percent, below which a pattern is rare (theta)."""
    kinds: list[Annotated[str, one_of(lambda: KINDS)]] = ["forgetting", "boundary", "rare"]
    """Signals to extract: forgetting, boundary and rare, as in CoEvolve; unsolved adds tasks that always fail."""
