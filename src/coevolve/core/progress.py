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
        miniters=1 if quiet else 0,  # in a terminal, the clock moves although nothing is done
        smoothing=0.0,  # the mean rate: a smoothed one counts only the time since the last line
        ascii=quiet,
        disable=total == 0,
    )


def close_bars() -> None:
    """Close the bars that an exception left open, so that the next output starts on a new line."""
    for open_bar in list(getattr(tqdm, "_instances", ())):
        open_bar.close()
