"""Prepare the tiny policy for a user's environment: give it the environment's words, and vary the values of demonstrations.

Its weights copy values, so all new words take the embeddings of values that it can copy. With other values in their places, the
few demonstrations teach it to copy names, numbers and texts that it has never seen.
"""

import string
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import settle
from coevolve.core.seeding import rng_for
from coevolve.environments.chains import leaves
from coevolve.policies.tokenizer import GLUE, build, names
from coevolve.policies.transformers_policy import load
from coevolve.stages.train.reference_tokens import Tools
from coevolve.stages.train.small_model import copy_examples, supervise
from coevolve.stages.warm.substitution import drill, lexicon, substituted
from coevolve.stages.warm.warm_start import Demonstrations

COPY_STEPS, COPY_BATCH, COPY_RATE, COPY_LENGTHS = 160, 32, 3e-3, (6, 24)
NOISE = 0.02  # standard deviation, so that words with the embedding of the same value differ
SYMBOLS = string.ascii_letters + string.digits * 4 + " -_.@"
DRILLS = 0.1  # share of demonstrations that call a tool which no other calls
MOST = 6400  # variants: more would take longer to make than to learn from


def fit(parent: Path, tools: Tools, examples: Demonstrations, seed: int, folder: Path) -> None:
    """Give the model in ``parent`` the words of ``tools`` and ``examples``, train it to copy them, and save it to ``folder``."""
    settle(threads=1)
    words = lexicon(functions(tools), (episode.messages for episode, _ in examples))
    tokenizer = build(words, [])
    model = transplanted(parent, tokenizer, seed)
    symbols = tokenizer.convert_tokens_to_ids([*words, *rng_for("symbols", seed).choices(SYMBOLS, k=len(words))])
    copies = copy_examples(tokenizer, symbols, COPY_STEPS * COPY_BATCH, COPY_LENGTHS, rng_for("copying", seed))
    supervise(model, tokenizer, copies, COPY_BATCH, COPY_RATE, "warm start: copying")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def transplanted(parent: Path, tokenizer: Any, seed: int) -> Any:
    """The model in ``parent`` with the vocabulary of ``tokenizer``. A word takes the embedding of some name that ``parent`` can copy."""
    import torch

    torch.manual_seed(seed % 2**31)
    model, vocabulary = load(parent)
    old, before = vocabulary.get_vocab(), model.get_input_embeddings().weight.detach().clone()
    signs = {*tokenizer.all_special_tokens, *GLUE, *string.digits, " "}
    donors = [old[name] for name in names(vocabulary)]
    rng_for("embeddings", seed).shuffle(donors)
    rows = {
        row: old[word] if word in signs else donors[row % len(donors)] for word, row in tokenizer.get_vocab().items()
    }
    embeddings = before[[rows[row] for row in range(len(rows))]]
    model.resize_token_embeddings(len(rows))
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(embeddings + NOISE * torch.randn_like(embeddings))
    return model


def functions(tools: Tools) -> list[dict[str, Any]]:
    return [schema["function"] for schema in tools]


def varied(examples: Demonstrations, tools: Tools, count: int, seed: int) -> Demonstrations:
    """At most ``count`` draws from ``examples``, most of them with other values, and drills of tools that no example calls."""
    calls = [call for episode, _ in examples for call in episode.calls]
    known = defaultdict(list)
    for key, value in (leaf for call in calls for leaf in leaves(call.arguments)):
        known[key].append(value)
    unused = [one for one in functions(tools) if one["name"] not in {call.name for call in calls}]
    kept = {*known, *(one["name"] for one in functions(tools))}
    words = lexicon(functions(tools), (episode.messages for episode, _ in examples))
    plain = [word for word in words if len(word) > 2 and word.isalpha() and word.islower()]
    drawn = []
    for number in range(min(count, MOST)):
        rng = rng_for("variant", seed, number)
        episode, offered = rng.choice(examples)
        messages = drill(rng.choice(unused), known, plain, rng) if unused and rng.random() < DRILLS else []
        messages = messages or substituted(episode.messages, known, kept, plain, rng)
        drawn.append((replace(episode, messages=messages), offered))
    return drawn
