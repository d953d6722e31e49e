"""Values of params.yaml that fit an environment and a pretrained model, and how long an iteration takes with them.

`coevolve init --environment E --model M` runs this module in a process of its own: it renders the references with M's tokenizer,
and lets the model play and train a moment.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import pin, pinned
from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.environments.registry import make
from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits, RolloutRequest, rollout

READ = 256  # tasks whose references are rendered
GROUP = 8  # attempts at a task
# bytes of activations in a pass, for each token, layer and column of the width (SmolLM2: 14 GB of 6,144 tokens)
TOKEN = 4 * 25
LOGITS = 4 * 3  # bytes for each token and word: logits, log-probabilities, gradients
WEIGHT = 4 * 4  # bytes for each parameter that is trained: weight, gradient, two moments
WIDE = 0.10  # half an interval that says little


@dataclass(frozen=True, slots=True)
class Measured:
    """What decides the parameters. Tokens and turns are those of the longest reference, ``prompt`` and ``completion`` of the
    average one; ``panel`` is the size of the largest panel, ``memory`` the free bytes. ``play`` and ``learn`` are the seconds of an
    episode that is played with others, and of a token in a training pass.
    """

    turns: int
    episode: int
    reply: int
    prompt: float
    completion: float
    tasks: int
    panels: int
    panel: int
    parameters: int
    layers: int
    width: int
    vocabulary: int
    memory: float
    gpu: bool
    multiplies_bfloat16: bool
    alike: bool = False
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
    return _up(1.25 * m.episode, 64)


def _rows(m: Measured) -> int:
    """The largest power of two, up to a group, whose pass takes half of the memory that the weights leave."""
    room = max((m.memory - 4 * m.parameters) / 2 / m.row, 1.0)
    return min(GROUP, 1 << int(math.log2(room)))


# each key, what decides its value, and the value
RULES: tuple[tuple[str, str, Callable[[Measured], Any]], ...] = (
    ("policy.max_turns", "the longest reference, its last reply and a spare one", lambda m: m.turns + 2),
    ("policy.episode_tokens", "the longest reference and a quarter", _tokens),
    ("policy.reply_tokens", "the longest reply and a half, at least 32", lambda m: max(_up(1.5 * m.reply, 16), 32)),
    ("policy.dtype", "the processor", lambda m: "bfloat16" if m.multiplies_bfloat16 else "float32"),
    ("warm.steps", "enough for a model of 135 million parameters and 20 kinds of tasks", lambda m: 60),
    ("warm.until", "tasks are solved now and then", lambda m: 0.35),
    ("warm.adapters", "whether all weights fit into memory with their moments", lambda m: not m.whole),
    ("warm.learning_rate", "all weights or adapters", lambda m: 0.0004 if m.whole else 0.001),
    ("warm.micro_batch", "memory", lambda m: min(_rows(m), 2)),
    ("train.lora.enabled", "a pretrained model", lambda m: True),
    ("train.group_size", "the field's value for small models", lambda m: GROUP),
    ("train.tasks_per_step", "64 attempts in a step", lambda m: min(8, m.tasks)),
    ("train.steps", "each training task once, in 4 to 12 steps", lambda m: min(max(m.tasks // 8, 4), 12)),
    ("train.micro_batch", "memory", _rows),
    ("train.save_steps", "steps take minutes", lambda m: 1),
    ("train.keep_base", "the warm start knows little that could be lost", lambda m: 0.0),
    ("grpo.learning_rate", "adapters: 5e-4 lost whole kinds of tasks", lambda m: 0.0002),
    ("grpo.beta", "the field's value for small models", lambda m: 0.0),
    ("grpo.refill_rounds", "episodes are dear", lambda m: 0),
    ("explore.explorations", "episodes are dear", lambda m: 128),
    ("synthesize.count", "a third of the training tasks, 16 to 64", lambda m: min(max(m.tasks // 3, 16), 64)),
    ("verify.pass_rate_samples", "episodes are dear", lambda m: 2),
    ("verify.select", "so few candidates are all kept", lambda m: None),
    ("evaluate.tasks", "the panels, up to 200", lambda m: min(m.panel, 200)),
)


def fitted(measured: Measured) -> dict[str, Any]:
    """The values by key. Raises a CoevolveError if the model cannot be trained in the memory that is free."""
    needed = 4 * measured.parameters + measured.row
    if not measured.gpu and needed > measured.memory:
        raise CoevolveError(
            f"--model: training needs {needed / 1e9:.1f} GB, activations of one episode included, and "
            f"{measured.memory / 1e9:.1f} GB are free; end other programs, or choose a smaller model"
        )
    return {key: value(measured) for key, _, value in RULES}


def minutes(measured: Measured, values: Mapping[str, Any]) -> float:
    """About how long an iteration takes: attempts, their training passes, pass rates, and the evaluation of a policy.

    Larger batches play faster than the few episodes that were measured, so it is rather an upper bound.
    """
    groups = values["train.steps"] * values["train.tasks_per_step"]
    attempts, tested = groups * GROUP, values["synthesize.count"] * values["verify.pass_rate_samples"]
    episodes = attempts + tested + values["evaluate.tasks"] * measured.panels
    tokens = groups * (measured.prompt + GROUP * measured.completion)  # attempts at a task share their prompt
    return float(episodes * measured.play + tokens * measured.learn) / 60


def lines(measured: Measured, values: Mapping[str, Any]) -> list[str]:
    """What a person must know before a long run."""
    half = 0.98 / math.sqrt(values["evaluate.tasks"])
    told = [
        f"an iteration takes up to about {max(minutes(measured, values), 1):.0f} min on this machine as busy as now, "
        f"{values['train.steps'] * values['train.tasks_per_step'] * GROUP} attempts at tasks included"
    ]
    if values["policy.dtype"] == "bfloat16" and not measured.gpu:
        told.append("run it with COEVOLVE_ARITHMETIC=native too; other processors will compute other bytes")
    if half > WIDE:
        told.append(f"a panel of {values['evaluate.tasks']} tasks has an interval of ±{half:.2f}: write more tasks")
    if measured.alike:
        told.append("all references are the same calls, which an agent can learn by heart: write tasks that differ")
    return told


def measure(place: str, model: Path) -> Measured:
    """What decides the parameters for the environment ``place`` and the model directory ``model``."""
    import psutil
    import torch

    from coevolve.policies.agent_prompt import Renderer
    from coevolve.policies.transformers_policy import TransformersPolicy, load
    from coevolve.stages.train.reference_tokens import offered, replayed, tokens

    gpu = torch.cuda.is_available()
    native = gpu or (not pinned() and torch.cpu._is_avx512_bf16_supported())
    environment = make(place)
    tasks = [task for task in environment.tasks("seed")[:READ] if any(task.reference)]
    patience = PolicySection().max_seconds
    played = replayed(environment, tasks, Limits(1000, 10**9, 10**9, patience))
    if not played:
        raise CoevolveError(f"{environment.name}: no task of seed has a reference that succeeds, to fit parameters to")
    network, tokenizer = load(model, PolicySection().threads, "bfloat16" if native else "float32")
    renderer, tools = Renderer(tokenizer, {}), offered(environment, tasks)
    rows = [tokens(renderer, tools[name], episode) for name, episode in played.items()]
    written = (message for episode in played.values() for message in episode.messages if message["role"] == "assistant")
    replies = [len(renderer.reply(message["content"], ended=True)) for message in written]
    prompt, completion = (
        sum(part) / len(rows) for part in zip(*((len(row.prompt), len(row.completion)) for row in rows), strict=True)
    )
    # before its warm start a model makes no calls and does not stop, so it writes one reply as long as an episode
    limits = Limits(1, 10**9, round(completion), patience)
    requests = [RolloutRequest(task, seed) for seed, task in enumerate(tasks[:GROUP])]
    began = time.monotonic()
    rollout(TransformersPolicy(network, tokenizer, 1.0), environment, requests, limits)
    play = (time.monotonic() - began) / len(requests)
    ids = torch.tensor([rows[0].prompt + rows[0].completion], device=network.device)
    began = time.monotonic()
    network(input_ids=ids, labels=ids).loss.backward()
    learn = (time.monotonic() - began) / ids.shape[1]
    config = network.config.get_text_config()
    sizes = [len(environment.tasks(panel)) for panel in environment.panels]
    return Measured(
        turns=max(len(episode.calls) for episode in played.values()),
        episode=max(map(len, rows)),
        reply=max(replies),
        prompt=prompt,
        completion=completion,
        tasks=len(environment.tasks("seed")),
        panels=len(environment.panels),
        panel=max(sizes, default=1),
        parameters=network.num_parameters(),
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        memory=float(torch.cuda.mem_get_info()[0] if gpu else psutil.virtual_memory().available),
        gpu=gpu,
        multiplies_bfloat16=native,
        alike=len({json.dumps([[call.name, call.arguments] for call in task.calls]) for task in tasks}) == 1,
        play=play,
        learn=learn,
    )


def main(place: str, model: str) -> None:
    """Print the values and the lines as JSON."""
    pin()
    measured = measure(place, Path(model))
    values = fitted(measured)
    print(json.dumps({"values": values, "lines": lines(measured, values)}))


if __name__ == "__main__":
    guard(lambda: main(*sys.argv[1:]))
