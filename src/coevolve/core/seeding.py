"""The source of all random numbers: seeds derived from their purpose.

Each use derives its seed from (seed, stage, iteration, step, ...). A run saves no state of a random number generator, so a
resumed run equals an uninterrupted run.
"""

import hashlib
import random


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2**63) that depends on all parts and on nothing else, not even on the process."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def rng_for(*parts: str | int) -> random.Random:
    """A separate random number generator for the purpose that ``parts`` name."""
    return random.Random(derive_seed(*parts))
