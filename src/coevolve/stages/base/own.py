"""Train the tiny policy on an environment of one's own: on copying, right demonstrations, and unreliable ones.

It starts from the embedded policy, whose circuits copy values. All new words take the embeddings of values that it can copy.
The right demonstrations are the replayed references of the training tasks with other values in their places, so the policy learns
to copy names, numbers and texts that it has never seen. Then each kind of task gets a weak call, where the demonstrator fails with
a probability that differs between kinds: the policy solves about half of the tasks, and errs only in its choice of calls.
"""

import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import settle
from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.mixture import parts
from coevolve.environments.registry import make as make_environment
from coevolve.policies.transformers_policy import TransformersPolicy
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from coevolve.stages.base.config import Base, Own
from coevolve.stages.base.held_out import divided, success
from coevolve.stages.base.noisy_demonstrator import Unreliable
from coevolve.stages.base.recipe import embedded
from coevolve.stages.base.small import CONTEXT, copy_examples, example, small, supervise
from coevolve.stages.base.substitution import Messages, arguments, drill, lexicon, substituted
from coevolve.stages.base.tokenizer import GLUE, build
from coevolve.stages.base.unreliable_policy import UnreliablePolicy, unreliable
from coevolve.stages.train.reference_tokens import replayed

COPY_LENGTHS = (6, 24)  # symbols in a string to repeat
SYMBOLS = string.ascii_letters + string.digits * 4 + " -_.@"
STEPS, RATE = 0.4, 3  # factors of the steps and the learning rate of a policy that starts from random weights
DRILLS = 0.1  # share of demonstrations that call a tool which no reference calls
TARGET = 0.5  # the success that unreliable demonstrations aim at
NOISE = 0.02  # standard deviation, so that words with the embedding of the same value differ
SPREAD = 0.5  # between the kinds of tasks that fail least and most often


def make(config: Base, own: Own, folder: Path) -> None:
    """Train the tiny policy by ``config`` on the tasks of ``own``, and save it to ``folder`` as a transformers model directory."""
    import torch

    settle(threads=1)
    environment, limits = make_environment(own.environment), Limits.of(own.policy)
    tasks, held = divided(environment, own.split, own.tasks)
    right = {task_id: episode.messages for task_id, episode in replayed(environment, tasks, limits).items()}
    tasks = [task for task in tasks if task.task_id in right]
    if not right:
        raise CoevolveError(
            f"base.model: no reference of {own.environment}'s split {own.split!r} succeeds, so the tiny policy cannot learn the "
            "tools; check the references with `coevolve env audit`, or set base.model to a pretrained model"
        )
    functions = [schema["function"] for schema in environment.tools()]
    tokenizer = build(lexicon(functions, right.values()), [])
    torch.manual_seed(config.seed)
    model = transplanted(embedded(config), tokenizer, config)
    symbols = [tokenizer.convert_tokens_to_ids(symbol) for symbol in SYMBOLS]
    steps = round(STEPS * config.copy_steps)
    copies = copy_examples(tokenizer, symbols, steps * config.copy_batch, COPY_LENGTHS, rng_for("copying", config.seed))
    supervise(model, tokenizer, copies, config.copy_batch, RATE * config.learning_rate, "copying")

    known = arguments(right.values())
    used = {name for task in tasks for name in task.tools}
    unused = [function for function in functions if function["name"] not in used]

    def learn(name: str, steps: int, rate: float, draw: Callable[[Task, int], Messages]) -> None:
        examples = []
        for number in range(round(STEPS * steps) * config.batch):
            rng = rng_for("demonstration", config.seed, name, number)
            if unused and rng.random() < DRILLS:
                messages = drill(rng.choice(unused), known, rng)
            else:
                messages = substituted(draw(rng.choice(tasks), number), known, rng)
            examples.append(example(tokenizer, messages))
        fitting = [one for one in examples if len(one["input_ids"]) <= CONTEXT]
        supervise(model, tokenizer, fitting, config.batch, rate, name, by_length=True)

    learn(
        "right demonstrations",
        config.demonstration_steps,
        RATE * config.learning_rate,
        lambda task, _: right[task.task_id],
    )
    solved = success(TransformersPolicy(model, tokenizer, 0.0), environment, held, limits)
    print(f"held out: {solved:.2f}")
    if solved > TARGET and config.unreliable_steps:
        chance = weaknesses(tasks, 1 - TARGET / solved, config.seed)
        wrong = failing(environment, tasks, limits, config.seed)

        def draw(task: Task, number: int) -> Messages:
            fails = rng_for("mistake", config.seed, number).random() < chance[tuple(task.tools)]
            return (wrong if fails else right)[task.task_id]

        learn("unreliable demonstrations", config.unreliable_steps, config.learning_rate, draw)
        solved = success(TransformersPolicy(model, tokenizer, 0.0), environment, held, limits)
        print(f"held out: {solved:.2f} {chance}")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def transplanted(parent: Path, tokenizer: Any, config: Base) -> Any:
    """The model in ``parent`` with the vocabulary of ``tokenizer``. A word takes the embedding of some value that ``parent`` can copy."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = small(tokenizer, config.layers, config.hidden, config.heads)
    weights = AutoModelForCausalLM.from_pretrained(parent).state_dict()
    old, before = AutoTokenizer.from_pretrained(parent).get_vocab(), weights.pop("model.embed_tokens.weight")
    model.load_state_dict({name: one for name, one in weights.items() if name != "lm_head.weight"}, strict=False)
    signs = {*tokenizer.all_special_tokens, *GLUE, *string.digits, " "}
    donors = [old[name] for name in Miniworld.lexicon()[0] if name.isalpha()]
    rng_for("embeddings", config.seed).shuffle(donors)
    with torch.no_grad():
        embeddings = model.get_input_embeddings().weight
        for word, row in tokenizer.get_vocab().items():
            embeddings[row] = before[old[word] if word in signs else donors[row % len(donors)]]
        embeddings += NOISE * torch.randn_like(embeddings)
    return model


def weaknesses(tasks: Sequence[Task], share: float, seed: int) -> Mapping[tuple[str, ...], float]:
    """The probability to fail at each kind of task: above one half for kinds with about ``share`` of ``tasks``."""
    sizes = Counter(tuple(task.tools) for task in tasks)
    kinds = sorted(sizes)
    rng_for("weaknesses", seed).shuffle(kinds)
    chance, before = {}, 0.0
    for kind in kinds:
        middle = before + sizes[kind] / len(tasks) / 2
        chance[kind] = min(max(0.5 + SPREAD * (middle - 1 + share), 0.1), 0.9)
        before += sizes[kind] / len(tasks)
    return chance


def failing(environment: Environment, tasks: Sequence[Task], limits: Limits, seed: int) -> dict[str, Messages]:
    """An episode for each task in which the weak call of its kind goes wrong: another tool, or none."""
    episodes: dict[str, Messages] = {}
    for part in parts(environment):
        look_alikes = unreliable(part.environment, part.own(tasks), 1.0, 1.0, seed).look_alikes
        for task in part.own(tasks):
            rng = rng_for("weak call", seed, *task.tools)
            weak = rng.choice([name for name in task.tools if name in look_alikes] or task.tools[-1:])
            policy = UnreliablePolicy(part.environment, Unreliable({weak: 1.0}, look_alikes))
            request = RolloutRequest(task, derive_seed("mistake", seed, *task.tools))
            for episode in scored(rollout(policy, part.environment, [request], limits)):
                episodes[task.task_id] = episode.trajectory.messages
    return episodes
