"""How the tiny policy is made: able first (copying, then right demonstrations), then unreliable.

A policy converged on right demonstrations leaves GRPO nothing to choose from; one stopped early lacks skills that
reinforcement cannot give it. So it learns to be right, and then to be wrong in its choice of calls alone.
"""

from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import settle
from coevolve.core.seeding import derive_seed, generator
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.stages.base.config import Base
from coevolve.stages.base.demonstrate import RELIABLE, demonstrations, unreliable
from coevolve.stages.base.small import IGNORED, Example, example, small, supervise
from coevolve.stages.base.tokenizer import build

COPY_LENGTHS = (6, 24)  # of the strings to repeat


def make(config: Base, folder: Path) -> None:
    """Train the tiny policy by ``config`` and save it to ``folder`` as a transformers model directory."""
    import torch

    settle(threads=1)
    tokenizer = build(*Miniworld.lexicon())
    torch.manual_seed(config.seed)
    model = small(tokenizer, config.layers, config.hidden, config.heads)
    low, high = config.unreliability
    demonstrator = unreliable(low, high, config.seed)
    right, wrong = (derive_seed("base", config.seed, name) for name in ("right", "unreliable"))
    copies = copying(tokenizer, config.copy_steps * config.copy_batch, config.seed)
    supervise(model, tokenizer, copies, config.copy_batch, config.learning_rate, "copying")
    for name, steps, seed, spoilt, rate in (
        ("right demonstrations", config.demonstration_steps, right, RELIABLE, config.learning_rate),
        ("unreliable demonstrations", config.unreliable_steps, wrong, demonstrator, config.learning_rate / 2),
    ):
        episodes = demonstrations(steps * config.batch, seed, spoilt)
        examples = [example(tokenizer, messages) for messages in episodes]
        supervise(model, tokenizer, examples, config.batch, rate, name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def copying(tokenizer: Any, count: int, seed: int) -> list[Example]:
    """Random strings and their repetition, over digits, letters of identifiers and whole values."""
    words = [name for name in Miniworld.lexicon()[0] if name.isalpha()]
    symbols = [tokenizer.convert_tokens_to_ids(symbol) for symbol in [*words, *"0123456789" * 4, *"cmefi" * 2]]
    user, assistant = (tokenizer.convert_tokens_to_ids(f"<|{role}|>") for role in ("user", "assistant"))
    rng = generator("copying", seed)
    examples = []
    for _ in range(count):
        string = rng.choices(symbols, k=rng.randint(*COPY_LENGTHS))
        own = [*string, tokenizer.eos_token_id]
        head = [user, *own, assistant]
        examples.append({"input_ids": head + own, "labels": [IGNORED] * len(head) + own})
    return examples
