"""Bounds on calls of the package's functions: no call runs without end, and none affects later calls.

If the package would answer with an error after all its work, the error comes at once. If a smaller argument gives the same
answer, it replaces the argument. The only limit that can change an answer is ``PRECISION``.
"""

import decimal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PRECISE = frozenset({"logarithm", "square_root"})  # they set the precision of all later computations
# most digits for both; the benchmark's answers ask for at most 10
PRECISION = 10_000
DIGITS = 4300  # most digits of a whole number that Python converts to text or from text


def bounded(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, or other arguments with the same answer. A ValueError is the answer to a call without end."""
    if name == "power":
        _check_power(arguments.get("base"), arguments.get("exponent"))
    elif name == "round_number":
        places = arguments.get("decimal_places")
        if isinstance(places, int) and places < -2 * DIGITS:
            return {**arguments, "decimal_places": -2 * DIGITS}  # both round to 0
    elif name in PRECISE:
        _check_precision(arguments.get("precision"))
    return arguments


def _check_power(base: Any, exponent: Any) -> None:
    """Raise the package's error for a power of whole numbers with too many digits, which the package raises only at the end."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        bits = (abs(base).bit_length() - 1) * exponent  # at least
        if bits > 4 * DIGITS:
            limit = sys.get_int_max_str_digits() or DIGITS
            raise ValueError(
                f"Exceeds the limit ({limit} digits) for integer string conversion; "
                "use sys.set_int_max_str_digits() to increase the limit"
            )


def _check_precision(precision: Any) -> None:
    try:
        digits = int(precision)
    except (TypeError, ValueError, OverflowError):
        return  # the function reports the error
    if digits > PRECISION:
        raise ValueError(f"precision must be at most {PRECISION} digits")


@contextmanager
def contained(name: str) -> Iterator[None]:
    """A call in this block starts with the default precision of decimal and mpmath, and does not change that of other calls."""
    if name not in PRECISE:
        yield
        return
    with decimal.localcontext(decimal.DefaultContext):
        mpmath = sys.modules.get("mpmath")
        if mpmath is None:
            yield
            return
        with mpmath.workdps(15):
            yield
