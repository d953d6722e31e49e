"""Where every random number comes from: a seed derived from what it is for.

A resumed run equals an uninterrupted one because no generator's state has to be saved:
each place derives its own seed from (seed, stage, iteration, step, ...).
"""

import hashlib
import random


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2**63) that depends on all parts and on nothing else (not on the process)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(*parts: str | int) -> random.Random:
    """A generator of its own for the purpose that ``parts`` name."""
    return random.Random(derive_seed(*parts))
