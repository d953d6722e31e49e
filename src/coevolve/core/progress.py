"""Progress bars for long work. Outside a terminal they are a few plain lines per run."""

import sys
from typing import Any

from tqdm import tqdm


def bar(total: int, name: str, unit: str, initial: int = 0) -> "tqdm[Any]":
    """A tqdm bar over ``total`` units; hidden if there is nothing to do."""
    quiet = not sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=initial,
        desc=name,
        unit=f" {unit}",
        mininterval=15.0 if quiet else 0.2,
        ascii=quiet,
        disable=total == 0,
    )
