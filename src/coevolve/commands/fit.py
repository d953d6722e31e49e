"""Values of params.yaml that fit an environment and a pretrained model, and how long an iteration takes with them.

`coevolve init --environment E --model M` runs this module in a process of its own: it renders the references with M's tokenizer,
and lets the model play and train a moment.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import pin, pinned
from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.core.memory import free_memory
from coevolve.core.processes import available
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.train.chat_template import BROKEN, diagnose
from coevolve.stages.train.config import Lora

Clock = Callable[[], float]

READ = 256  # tasks whose references are rendered
GROUP = 8  # attempts at a task
STEP = 8  # tasks of a step
SAMPLE = 8  # tokens that the model writes in each episode of a measured step
LONGER = 1.25  # an agent errs, so its episodes are longer than references
# share of groups whose rewards differ; a step trains on no others (2 to 6 of 8 in two support desks, 3 to 6 of 6 doors)
TEACHING = 0.6
SPREAD = 1.5  # steps took 0.9 to 1.5 times the sum of their parts in two support desks and a ferry office
# bytes of activations in a pass, for each token, layer and column of the width (SmolLM2: 14 GB of 6,144 tokens)
TOKEN = 4 * 25
LOGITS = 4 * 3  # bytes for each token and word: logits, log-probabilities, gradients
WEIGHT = 4 * 4  # bytes for each parameter that is trained: weight, gradient, two moments
HARMLESS = ("prefix", "thoughts")  # our rollouts and training keep earlier turns, whatever a template makes of them
FEW = 16  # training tasks below which the loop has little to grow from
WIDE = 0.10  # half an interval that says little


@dataclass(frozen=True, slots=True)
class Measured:
    """What decides the parameters. Tokens and turns are those of the longest reference, ``prompt`` and ``completion`` of the
    average one; ``panels`` are sizes, ``context`` the tokens that the model can read, ``memory`` the free bytes. ``play`` and
    ``learn`` are the seconds of an episode that is played with those of a step, and of a token in a training pass;
    ``processes`` share the episodes of verification and evaluation.
    """

    turns: int
    episode: int
    reply: int
    prompt: float
    completion: float
    tasks: int
    panels: tuple[int, ...]
    parameters: int
    layers: int
    width: int
    vocabulary: int
    context: int
    memory: float
    gpu: bool
    multiplies_bfloat16: bool
    native: bool
    processes: int = 1
    play: float = 0.0
    learn: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether all weights fit into memory with what their training needs."""
        return self.parameters * WEIGHT + self.row <= self.memory / 2

    @property
    def row(self) -> float:
        """The bytes of a training pass over one row."""
        return _tokens(self) * (TOKEN * self.layers * self.width + LOGITS * self.vocabulary)


def _up(number: float, multiple: int) -> int:
    return math.ceil(number / multiple) * multiple


def _tokens(m: Measured) -> int:
    return min(_up(LONGER * m.episode, 64), m.context)


def _rows(m: Measured) -> int:
    """The largest power of two, up to a group, whose pass takes half of the memory that the weights leave."""
    room = max((m.memory - 4 * m.parameters) / 2 / m.row, 1.0)
    return min(GROUP, 1 << int(math.log2(room)))


# each key, what decides its value, and the value
RULES: tuple[tuple[str, str, Callable[[Measured], Any]], ...] = (
    ("policy.max_turns", "the longest reference, its last reply and a spare one", lambda m: m.turns + 2),
    ("policy.episode_tokens", "the longest reference and a quarter", _tokens),
    ("policy.reply_tokens", "the longest reply and a half, at least 32", lambda m: max(_up(1.5 * m.reply, 16), 32)),
    ("policy.dtype", "the processor", lambda m: "bfloat16" if m.multiplies_bfloat16 and m.native else "float32"),
    ("warm.steps", "most supervised steps on your references; warm.until ends them", lambda m: 60),
    ("warm.until", "success that ends it: some tasks are solved, so rewards differ", lambda m: 0.35),
    ("warm.adapters", "all weights do not fit into memory with their moments", lambda m: not m.whole),
    ("warm.learning_rate", "adapters need a larger one", lambda m: 0.0004 if m.whole else 0.001),
    ("warm.micro_batch", "episodes in a pass that fit into the memory that is free", lambda m: min(_rows(m), 2)),
    ("train.lora.enabled", "a pretrained model", lambda m: True),
    ("train.group_size", "the field's value for small models", lambda m: GROUP),
    ("train.tasks_per_step", "64 attempts in a step", lambda m: min(STEP, m.tasks)),
    ("train.steps", "each training task once, in 4 to 12 steps", lambda m: min(max(m.tasks // STEP, 4), 12)),
    ("train.micro_batch", "episodes in a pass that fit into the memory that is free", _rows),
    ("train.save_steps", "each step, because steps take minutes", lambda m: 1),
    ("train.keep_base", "the warm start knows little that could be lost", lambda m: 0.0),
    ("grpo.learning_rate", "adapters: 5e-4 lost whole kinds of tasks", lambda m: 0.0002),
    ("grpo.beta", "the field's value for small models", lambda m: 0.0),
    ("grpo.refill_rounds", "no other attempts for groups that teach nothing: episodes are dear", lambda m: 0),
    ("explore.explorations", "episodes are dear", lambda m: 128),
    ("synthesize.count", "a third of the training tasks, 16 to 64", lambda m: min(max(m.tasks // 3, 16), 64)),
    ("verify.pass_rate_samples", "episodes are dear", lambda m: 2),
    ("verify.select", "so few candidates are all kept", lambda m: None),
    ("validate.tasks.critical", "the loop keeps all training tasks, however few", lambda m: min(FEW, m.tasks)),
    ("evaluate.tasks", "the panels, up to 200", lambda m: min(max(m.panels), 200)),
)


def fitted(measured: Measured) -> dict[str, Any]:
    """The values by key. Raises a CoevolveError if the model cannot read the references, or be trained in the memory that is free."""
    if measured.episode > measured.context:
        raise CoevolveError(
            f"--model: the longest reference has {measured.episode} tokens, prompt included, and the model reads "
            f"{measured.context}; use a model with a longer context, or shorten tools and tasks"
        )
    needed = 4 * measured.parameters + measured.row
    if not measured.gpu and needed > measured.memory:
        raise CoevolveError(
            f"--model: training needs {needed / 1e9:.1f} GB, activations of one episode included, and "
            f"{measured.memory / 1e9:.1f} GB are free; end other programs, or choose a smaller model"
        )
    return {key: value(measured) for key, _, value in RULES}


def minutes(measured: Measured, values: Mapping[str, Any]) -> float:
    """How long an iteration takes: attempts, their training passes, pass rates, and the evaluation of a policy."""
    groups = values["train.steps"] * values["train.tasks_per_step"]
    tested = values["synthesize.count"] * values["verify.pass_rate_samples"]
    evaluated = sum(min(size, values["evaluate.tasks"]) for size in measured.panels)
    episodes = groups * GROUP + (tested + evaluated) / measured.processes
    tokens = measured.prompt + GROUP * LONGER * measured.completion  # attempts at a task share their prompt
    return float(episodes * measured.play + TEACHING * groups * tokens * measured.learn) / 60


def lines(measured: Measured, values: Mapping[str, Any]) -> list[str]:
    """What a person must know before a long run."""
    half = 0.98 / math.sqrt(values["evaluate.tasks"])
    least = max(minutes(measured, values), 1)
    told = [
        f"an iteration takes about {least:.0f} to {SPREAD * least:.0f} min of this machine if nothing else runs, "
        f"{values['train.steps'] * values['train.tasks_per_step'] * GROUP} attempts at tasks included"
    ]
    if measured.multiplies_bfloat16 and not measured.gpu:
        native = "run it with COEVOLVE_ARITHMETIC=native too"
        faster = "this processor multiplies bfloat16: with COEVOLVE_ARITHMETIC=native, before `coevolve init` and `dvc repro`, a run is faster"
        told.append(f"{native if measured.native else faster}; other processors will compute other bytes")
    if half > WIDE:
        told.append(f"a panel of {values['evaluate.tasks']} tasks has an interval of ±{half:.2f}: write more tasks")
    if measured.tasks < FEW:
        told.append(f"seed has {measured.tasks} tasks, from which the loop makes few new ones: write more tasks")
    return told


def measure(place: str, model: Path) -> tuple[Measured, dict[str, Any]]:
    """What decides the parameters for the environment ``place`` and the model directory ``model``, and their values."""
    import torch

    from coevolve.policies.agent_prompt import Renderer
    from coevolve.policies.transformers_policy import load
    from coevolve.stages.train.reference_tokens import offered, replayed, tokens

    gpu = torch.cuda.is_available()
    multiplies, native = gpu or torch.cpu._is_avx512_bf16_supported(), gpu or not pinned()
    environment = make(place)
    tasks = _tasks(environment)
    began = time.monotonic()
    limits = Limits(1000, 10**9, 10**9, PolicySection().max_seconds)
    played = replayed(environment, tasks, limits)
    if not played:
        raise CoevolveError(f"{environment.name}: no task of seed has a reference that succeeds, to fit parameters to")
    stepping = (time.monotonic() - began) / len(played)
    network, tokenizer = load(model, PolicySection().threads, "bfloat16" if multiplies and native else "float32")
    for finding in diagnose(tokenizer, {}, environment, "seed", limits):
        if finding.state == BROKEN and finding.name not in HARMLESS:
            raise CoevolveError(f"{model}: {finding.text}; {finding.remedy}")
    renderer, tools = Renderer(tokenizer, {}), offered(environment, tasks)
    rows = [tokens(renderer, tools[name], episode) for name, episode in played.items()]
    written = (message for episode in played.values() for message in episode.messages if message["role"] == "assistant")
    replies = [len(renderer.reply(message["content"], ended=True)) for message in written]
    prompt, completion = (
        sum(part) / len(rows) for part in zip(*((len(row.prompt), len(row.completion)) for row in rows), strict=True)
    )
    config = network.config.get_text_config()
    found = Measured(
        turns=max(len(episode.calls) for episode in played.values()),
        episode=max(map(len, rows)),
        reply=max(replies),
        prompt=prompt,
        completion=completion,
        tasks=len(environment.tasks("seed")),
        panels=tuple(len(environment.tasks(panel)) for panel in environment.panels),
        parameters=network.num_parameters(),
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        context=int(getattr(config, "max_position_embeddings", 2**31)),
        memory=float(torch.cuda.mem_get_info()[0] if gpu else free_memory()),
        gpu=gpu,
        multiplies_bfloat16=multiplies,
        native=native,
        processes=1 if gpu else available(),
    )
    values = fitted(found)
    clock = time.monotonic if gpu else time.process_time  # on a CPU other programs do not count
    step = [RolloutRequest(task, seed) for task in tasks[:STEP] for seed in range(GROUP)]
    play = stepping + _played(network, tokenizer, environment, step, LONGER * completion, clock)
    return replace(found, play=play, learn=_learned(network, rows[0].prompt + rows[0].completion, clock)), values


def _tasks(environment: Environment) -> list[Task]:
    """The first training tasks with a reference. Raises a CoevolveError if a run could learn or measure nothing."""
    tasks = [task for task in environment.tasks("seed")[:READ] if any(task.reference)]
    if len({json.dumps([[call.name, call.arguments] for call in task.calls]) for task in tasks}) == 1:
        raise CoevolveError(
            f"{environment.name}: the references of all {len(tasks)} tasks of seed are the same calls, which an agent learns "
            "by heart; write tasks that differ"
        )
    if not environment.panels or not all(map(environment.tasks, environment.panels)):
        names = ", ".join(environment.panels) or "none"
        raise CoevolveError(
            f"{environment.name}: each panel needs tasks to measure a policy by; its panels are: {names}"
        )
    return tasks


def _played(
    network: Any, tokenizer: Any, environment: Environment, step: list[RolloutRequest], length: float, clock: Clock
) -> float:
    """The seconds of an episode of ``step`` in which the agent reads and writes ``length`` tokens after its prompt.

    Before its warm start a model makes no calls and does not stop, so its first tokens show what each costs.
    """
    from coevolve.policies.transformers_policy import TransformersPolicy

    def seconds(reply: int) -> float:
        began = clock()
        limits = Limits(1, 10**9, reply, PolicySection().max_seconds)
        rollout(TransformersPolicy(network, tokenizer, 1.0), environment, step, limits)
        return clock() - began

    start = seconds(1)
    each = max(seconds(1 + SAMPLE) - start, 0.0) / SAMPLE
    return (start + length * each) / len(step)


def _learned(network: Any, ids: list[int], clock: Clock) -> float:
    """The seconds of a token in a training pass of adapters."""
    import torch
    from peft import get_peft_model

    from coevolve.stages.train.trl_arguments import adapters

    adapted = get_peft_model(network, adapters(Lora(enabled=True), network))
    row = torch.tensor([ids], device=network.device)
    began = clock()
    adapted(input_ids=row, labels=row).loss.backward()
    if row.is_cuda:
        torch.cuda.synchronize()  # a GPU computes after Python has gone on
    return (clock() - began) / len(ids)


def main(place: str, model: str) -> None:
    """Print the values and the lines as JSON."""
    pin()
    measured, values = measure(place, Path(model))
    why = {key: reason for key, reason, _ in RULES}
    print(json.dumps({"values": values, "why": why, "lines": lines(measured, values)}))


if __name__ == "__main__":
    guard(lambda: main(*sys.argv[1:]))
