"""Train the tiny policy: first on copying and correct demonstrations, then on unreliable demonstrations.

A policy that converged on correct demonstrations leaves nothing for GRPO to reinforce. A policy that stopped early lacks skills
that reinforcement cannot give. So the policy learns correct behavior first, and then mistakes, but only in its choice of calls.
"""

from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import settle
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.stages.base.config import Base
from coevolve.stages.base.demonstrate import RELIABLE, demonstrations, unreliable
from coevolve.stages.base.small import Example, copy_examples, example, small, supervise
from coevolve.stages.base.tokenizer import build

COPY_LENGTHS = (6, 24)  # symbols in a string to repeat


def make(config: Base, folder: Path) -> None:
    """Train the tiny policy by ``config`` and save it to ``folder`` as a transformers model directory."""
    import torch

    settle(threads=1)
    tokenizer = build(*Miniworld.lexicon())
    torch.manual_seed(config.seed)
    model = small(tokenizer, config.layers, config.hidden, config.heads)
    low, high = config.unreliability
    erring = unreliable(low, high, config.seed)
    right, wrong = (derive_seed("base", config.seed, name) for name in ("right", "unreliable"))
    copies = copying(tokenizer, config.copy_steps * config.copy_batch, config.seed)
    supervise(model, tokenizer, copies, config.copy_batch, config.learning_rate, "copying")
    for name, steps, seed, demonstrator, rate in (
        ("right demonstrations", config.demonstration_steps, right, RELIABLE, config.learning_rate),
        ("unreliable demonstrations", config.unreliable_steps, wrong, erring, config.learning_rate / 2),
    ):
        episodes = demonstrations(steps * config.batch, seed, demonstrator)
        examples = [example(tokenizer, messages) for messages in episodes]
        supervise(model, tokenizer, examples, config.batch, rate, name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def copying(tokenizer: Any, count: int, seed: int) -> list[Example]:
    """Random strings and their repetition, over digits, letters of identifiers and whole values."""
    words = [name for name in Miniworld.lexicon()[0] if name.isalpha()]
    symbols = [tokenizer.convert_tokens_to_ids(symbol) for symbol in [*words, *"0123456789" * 4, *"cmefi" * 2]]
    return copy_examples(tokenizer, symbols, count, COPY_LENGTHS, rng_for("copying", seed))
