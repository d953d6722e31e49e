"""What keeps a call of the package's functions from running without end, and what it leaves behind from other calls.

Where the package itself would answer nothing but an error, its answer is given at once; where a smaller argument gives the
same answer, it is taken instead. What is left is a limit of ours: ``PRECISION``.
"""

import decimal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PRECISE = frozenset({"logarithm", "square_root"})  # set the precision of everything that computes after them
# digits that either may be asked for; the benchmark's answers ask for 10 at most
PRECISION = 10_000
DIGITS = 4300  # of a whole number, beyond which Python writes none down; so none that is read has more


def bounded(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, or others with the same answer. A ValueError is the answer of a call that has no end."""
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
    """A power of whole numbers that is too long to be written down is an error in the package too, after all its work."""
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
        return  # the function says so itself
    if digits > PRECISION:
        raise ValueError(f"precision must be at most {PRECISION} digits")


@contextmanager
def contained(name: str) -> Iterator[None]:
    """A call within this starts with the usual precision of decimal and mpmath, and leaves that of others as it was."""
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
