"""Progress bars for everything that takes a while; plain lines, a few a run, where the output is no terminal."""

import sys
from typing import Any

from tqdm import tqdm


def bar(total: int, name: str, unit: str, initial: int = 0) -> "tqdm[Any]":
    """A tqdm bar over ``total`` units; none is shown where there is nothing to do."""
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
