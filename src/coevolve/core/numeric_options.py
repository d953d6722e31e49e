"""Numbers in options and environment variables, by the names of ``coevolve.core.section``. A bad one is an error of one line."""

import argparse
import math
import os
from collections.abc import Callable

from coevolve.core.errors import CoevolveError

DIGITS = 18  # most digits of a whole number, so that it fits 64 bits


def _bounded(meaning: str, read: Callable[[str], float], fits: Callable[[float], bool]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = read(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not fits(value):
            raise argparse.ArgumentTypeError(f"{text[:20]!r} is not {meaning}")
        return value

    return parse


def _digits(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS:
        raise ValueError
    return int(text)


count = _bounded("a whole number of at least 1", _digits, lambda value: value >= 1)
whole = _bounded("a whole number of at least 0", _digits, lambda value: value >= 0)
port = _bounded("a port, from 1 to 65535", _digits, lambda value: 1 <= value <= 65535)
share = _bounded("a number from 0 to 1", float, lambda value: 0.0 <= value <= 1.0)
positive = _bounded("a number above 0", float, lambda value: value > 0.0)
not_negative = _bounded("a number of at least 0", float, lambda value: value >= 0.0)


def variable(name: str, kind: Callable[[str], float], otherwise: int) -> int:
    """The number in environment variable ``name``, of one of the kinds above; ``otherwise`` if it is not set."""
    text = os.environ.get(name)
    if text is None:
        return otherwise
    try:
        return int(kind(text))
    except argparse.ArgumentTypeError as error:
        raise CoevolveError(f"{name}: {error}; correct it or unset it") from None
