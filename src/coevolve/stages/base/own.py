"""Train the tiny policy on an environment of one's own: on copying, right demonstrations, and unreliable ones.

It starts from the embedded policy, whose weights copy values: all new words take the embeddings of values that it can copy. The
right demonstrations are the replayed references of the training tasks with other values in their places, so the policy learns to
copy names, numbers and texts that it has never seen. Then it fails most often at some kinds of tasks, so that it solves about half
of all tasks, and errs only in its choice of calls.
"""

import string
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import settle
from coevolve.core.errors import CoevolveError
from coevolve.core.resources import resource
from coevolve.core.seeding import rng_for
from coevolve.core.task import Task, ToolCall
from coevolve.environments.chains import leaves
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.registry import make as make_environment
from coevolve.environments.tool_schema import tool_schema
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.base.config import Base, Own
from coevolve.stages.base.held_out import divided, solves
from coevolve.stages.base.recipe import COPY_LENGTHS, Unreliable
from coevolve.stages.base.recipe import make as make_embedded
from coevolve.stages.base.small import CONTEXT, copy_examples, example, small, supervise
from coevolve.stages.base.substitution import Messages, drill, lexicon, substituted
from coevolve.stages.base.tokenizer import GLUE, build
from coevolve.stages.train.reference_tokens import failing, replayed

ROUNDS, ABLE = 2, 0.7  # most passes over right demonstrations, and the success that ends them: some minutes on one core
COPYING, STEPS = 0.4, 0.8  # factors of the steps of copying and of demonstrations: the policy can copy already
RATE = 3  # factor of the learning rate of a policy that starts from random weights
NOISE = 0.02  # standard deviation, so that words with the embedding of the same value differ
SYMBOLS = string.ascii_letters + string.digits * 4 + " -_.@"
DRILLS = 0.1  # share of demonstrations that call a tool which no reference calls
LOW = 0.5  # success that unreliable demonstrations leave at least
WEAK, STRONG = 0.8, 0.1  # probability to fail at a weak kind of task, and at another


def make(config: Base, folder: Path, own: Own) -> None:
    """Train the tiny policy by ``config`` on the tasks of ``own``, and save it to ``folder`` as a transformers model directory."""
    settle(threads=1)
    environment, limits = make_environment(own.environment), Limits.of(own.policy)
    tasks, held = divided(environment, own.split, own.tasks)
    right = {task_id: episode.messages for task_id, episode in replayed(environment, tasks, limits).items()}
    if not right:
        reason = f"; the first: {failing(environment, tasks[0], limits)}" if tasks else ""
        raise CoevolveError(
            f"base.model: no reference of {own.environment}'s split {own.split!r} succeeds, so the tiny policy cannot learn the "
            f"tools{reason}; correct the references, or set base.model to a pretrained model"
        )
    tasks = [task for task in tasks if task.task_id in right]
    functions = [schema["function"] for schema in environment.tools()]
    known, names = defaultdict(list), {function["name"] for function in functions}
    unused = [function for function in functions if not any(function["name"] in task.tools for task in tasks)]
    for key, value in (leaf for task in tasks for call in task.calls for leaf in leaves(call.arguments)):
        known[key].append(value)
    words = lexicon(functions, right.values())
    plain = [word for word in words if len(word) > 2 and word.isalpha() and word.islower()]
    tokenizer = build(words, [])
    parent, like = resource("policies/base"), Base(layers=config.layers, hidden=config.hidden, heads=config.heads)
    if like != Base() or not parent.is_dir():  # another shape, or the repository, where DVC has removed the old output
        make_embedded(like, parent := folder)
    model = transplanted(parent, tokenizer, config)
    symbols = tokenizer.convert_tokens_to_ids([*words, *rng_for("symbols", config.seed).choices(SYMBOLS, k=len(words))])
    count = round(COPYING * config.copy_steps) * config.copy_batch
    copies = copy_examples(tokenizer, symbols, count, COPY_LENGTHS, rng_for("copying", config.seed))
    supervise(model, tokenizer, copies, config.copy_batch, RATE * config.learning_rate, "copying")

    def solved() -> list[bool]:
        return solves(TransformersPolicy(model, tokenizer, 0.0), environment, held, limits)

    def learn_from(name: str, steps: int, rate: float, number: int, draw: Callable[[Task, float], Messages]) -> None:
        examples = []
        for count in range(round(STEPS * steps) * config.batch):
            rng = rng_for(name, config.seed, number, count)
            messages = drill(rng.choice(unused), known, plain, rng) if unused and rng.random() < DRILLS else []
            drawn = draw(rng.choice(tasks), rng.random())
            examples.append(example(tokenizer, messages or substituted(drawn, known, {*names, *known}, plain, rng)))
        fitting = [one for one in examples if len(one["input_ids"]) <= CONTEXT]
        if longer := len(examples) - len(fitting):
            print(
                f"{name}: {longer} of {len(examples)} demonstrations have more than {CONTEXT} tokens and are left out"
            )
        # a batch of short episodes would weigh their mistakes more
        supervise(model, tokenizer, fitting, config.batch, rate, name, by_length=draw is reference)

    def reference(task: Task, _: float) -> Messages:
        return right[task.task_id]

    def unreliable(task: Task, drawn: float) -> Messages:
        return (wrong if drawn < (WEAK if tuple(task.tools) in weak else STRONG) else right)[task.task_id]

    for number in range(ROUNDS):
        learn_from("right demonstrations", config.demonstration_steps, RATE * config.learning_rate, number, reference)
        outcomes = solved()
        able = sum(outcomes) / len(held)
        print(f"right demonstrations: the policy solves {able:.2f} of {len(held)} held-out training tasks")
        if able >= ABLE:
            break
    erring, weak = Erring(environment, tasks, config.seed), set[tuple[str, ...]]()
    episodes = rollout(erring, environment, [RolloutRequest(task, 0) for task in tasks], limits)
    wrong = {episode.trajectory.task_id: episode.trajectory.messages for episode in episodes}
    for number in range(ROUNDS if config.unreliable_steps else 0):
        if not (more := weaknesses(held, outcomes, config.seed)):
            break
        weak |= more
        learn_from("unreliable demonstrations", config.unreliable_steps, config.learning_rate, number, unreliable)
        outcomes = solved()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def transplanted(parent: Path, tokenizer: Any, config: Base) -> Any:
    """The model in ``parent`` with the vocabulary of ``tokenizer``. A word takes the embedding of some value that ``parent`` can copy."""
    import torch

    torch.manual_seed(config.seed)
    model, (trained, vocabulary) = small(tokenizer, config.layers, config.hidden, config.heads), load(parent)
    weights, old = trained.state_dict(), vocabulary.get_vocab()
    before = weights["model.embed_tokens.weight"]
    signs = {*tokenizer.all_special_tokens, *GLUE, *string.digits, " "}
    donors = [old[name] for name in Miniworld.lexicon()[0] if name.isalpha()]
    rng_for("embeddings", config.seed).shuffle(donors)
    rows = {
        row: old[word] if word in signs else donors[row % len(donors)] for word, row in tokenizer.get_vocab().items()
    }
    embeddings = before[[rows[row] for row in range(len(rows))]]
    embeddings += NOISE * torch.randn_like(embeddings)
    model.load_state_dict({**weights, "model.embed_tokens.weight": embeddings, "lm_head.weight": embeddings})
    return model


def weaknesses(tasks: Sequence[Task], solved: Sequence[bool], seed: int) -> set[tuple[str, ...]]:
    """Kinds of tasks, by the tools of their references. Without them the share ``LOW`` of ``tasks`` is still ``solved``."""
    able = Counter(tuple(task.tools) for task, yes in zip(tasks, solved, strict=True) if yes)
    kinds, weak, left = sorted(able), set[tuple[str, ...]](), sum(solved)
    rng_for("weaknesses", seed).shuffle(kinds)
    for kind in kinds:
        if left - able[kind] >= LOW * len(tasks):
            weak.add(kind)
            left -= able[kind]
    return weak


class Erring(ReferencePolicy):
    """Replays references, but takes a look-alike tool or makes no call where a call changes the state.

    It errs in the same way at all tasks of a kind. If no call changes the state, it errs at calls of the last tool.
    """

    def __init__(self, environment: Environment, tasks: Sequence[Task], seed: int) -> None:
        super().__init__(environment)
        schemas = [schema["function"] for schema in environment.tools()]
        self._keys = {one["name"]: set(tool_schema(one).flat()["properties"]) for one in schemas}
        self._changing, self._seed = learn(environment, tasks).changing, seed

    def planned(self, conversation: Conversation) -> list[list[ToolCall]]:
        tools, keys = conversation.task.tools, self._keys
        rng = rng_for("mistake", self._seed, *tools)
        weak = [name for name in tools if name in self._changing] or tools[-1:]
        alike = {name: [one for one in keys if one != name and keys[one] == keys.get(name)] for name in weak}
        demonstrator = Unreliable(dict.fromkeys(weak, 1.0), alike)
        turns = ([demonstrator.spoilt(call, rng) for call in turn] for turn in super().planned(conversation))
        return [[call for call in turn if call is not None] for turn in turns]
