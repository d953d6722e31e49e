"""Create the initial generator, which knows nothing about the agent.

``tiny`` is a model of about 0.1 M parameters. It trains for a minute or two, first to repeat tool names, then to edit specs at
random, for any text about the agent in the prompt. So it explores by chance. Any other model stays unchanged.
"""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from coevolve.core.arithmetic import settle
from coevolve.core.hashing import content_hash
from coevolve.core.io import read_json
from coevolve.core.learnability import Record
from coevolve.core.scratch import once, scratch
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.policies import helper_model
from coevolve.policies.pretrained import point, resolve
from coevolve.stages.generate.spec import CLOSE, LISTED, OPEN, PARTS, Spec, SpecRequest, Tools
from coevolve.stages.generate.spec import tools as spec_tools

NONE, TINY = "none", "tiny"
IDLE = f"nothing to do: generate.model is {NONE}"
KNOWS = "knows_specs"  # a key in the model's config, which later training keeps
LAYERS, HIDDEN, HEADS = 2, 64, 2
COPY_STEPS, COPY_BATCH, COPY_RATE, COPY_LENGTHS = 600, 32, 5e-3, (3, 12)
STEPS, BATCH, RATE = 1500, 32, 3e-3
# the edits of a spec and their probabilities; an impossible edit adds a goal instead
EDITS = {"drop": 0.25, "add": 0.25, "replace": 0.35, "reorder": 0.15}
ASKED = 0.25  # share of specs that ask for the answer of a lookup
WORDS = ["vary", "solved", "of", "agent", "seldom", "none", "?", "0.", *map(str, range(PARTS + 1))]
PIECES = [
    f'{OPEN}{{"goals": ["',
    f'{OPEN}{{"goals": [], "ask": "',
    '", "',
    '"], "ask": null}',
    '"], "ask": "',
    '"}',
    CLOSE,
]


def start(
    folder: Path, model: str, revision: str | None, environment: Environment, tasks: Sequence[Task], key: str
) -> None:
    """Write the initial generator to ``folder``: a pointer to a model, or the tiny generator.

    The tiny generator trains for the tools of ``environment``, as ``tasks`` show them, and stays in scratch under ``key``.
    """
    helper_model.start(folder)
    if model != TINY:
        point(model, revision, folder / helper_model.WHOLE, "generate")
        return
    tools = spec_tools(environment, learn(environment, tasks))
    helper_model.write(folder, folder, once(scratch() / "generator" / key, partial(make, tools)))


def make(tools: Tools, folder: Path) -> None:
    """Train the tiny generator for an environment's ``tools`` and save it to ``folder`` as a transformers model directory."""
    import torch

    from coevolve.policies.tokenizer import build
    from coevolve.stages.train.small_model import copy_examples, example, small, supervise

    settle(threads=1)
    names = [*tools.goals, *tools.lookups]
    tokenizer = build([*names, *PIECES], WORDS)
    torch.manual_seed(derive_seed("generator", content_hash(names)) % 2**31)
    model = small(tokenizer, LAYERS, HIDDEN, HEADS)
    rng = rng_for("random edits", content_hash(names))
    # copying comes first: edits alone teach it too slowly
    ids = [tokenizer.convert_tokens_to_ids(name) for name in names]
    copies = copy_examples(tokenizer, ids, COPY_STEPS * COPY_BATCH, COPY_LENGTHS, rng)
    supervise(model, tokenizer, copies, COPY_BATCH, COPY_RATE, "generator: copying")
    examples = []
    for _ in range(STEPS * BATCH):
        request = drawn(tools, rng)
        messages = [
            {"role": "user", "content": str(request)},
            {"role": "assistant", "content": str(edited(request.spec, tools, rng))},
        ]
        examples.append(example(tokenizer, messages))
    supervise(model, tokenizer, examples, BATCH, RATE, "generator: editing")
    setattr(model.config, KNOWS, True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def knows_specs(model: Path) -> bool:
    """Whether the model was trained to write specs, so that it needs no system prompt."""
    return bool(read_json(resolve(model) / "config.json").get(KNOWS))


def drawn(tools: Tools, rng: random.Random) -> SpecRequest:
    """A random request: a random spec, and a random success of the agent."""
    size = rng.randint(1, min(tools.most, len(tools.goals)))
    spec = Spec(tuple(rng.sample(tools.goals, size)), _asked(tools, rng))
    record = Record(rng.randint(0, PARTS), PARTS) if rng.random() < 0.9 else Record()
    seldom = sorted(rng.sample(tools.goals, min(LISTED, len(tools.goals))))
    return SpecRequest(spec, record, rng.randint(0, 9) / 10 if rng.random() < 0.9 else None, seldom)


def edited(spec: Spec, tools: Tools, rng: random.Random) -> Spec:
    """``spec`` with a goal dropped, added or replaced, or in another order; its question is drawn again."""
    goals = list(spec.goals)
    others = [name for name in tools.goals if name not in goals]
    kind = rng.choices(list(EDITS), list(EDITS.values()))[0]
    if kind == "drop" and len(goals) > 1:
        goals.remove(rng.choice(goals))
    elif kind == "reorder" and len(goals) > 1:
        rng.shuffle(goals)
    elif others and goals and (kind == "replace" or len(goals) == tools.most):
        goals[rng.randrange(len(goals))] = rng.choice(others)
    elif others:
        goals.insert(rng.randint(0, len(goals)), rng.choice(others))
    return Spec(tuple(goals), _asked(tools, rng))


def _asked(tools: Tools, rng: random.Random) -> str | None:
    return rng.choice(tools.lookups) if tools.lookups and rng.random() < ASKED else None
