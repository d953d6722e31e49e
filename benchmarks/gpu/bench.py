"""Measure GRPO steps of models with random weights on one GPU: tokens per second, memory, and the share of the chip's limits.

    python benchmarks/gpu/bench.py                              # all cases of 135M, 0.6B and 4B weights
    python benchmarks/gpu/bench.py --cases 0.6B-bf16-share 0.6B-bf16-recompute --out cases.jsonl
    python benchmarks/gpu/bench.py --cases 4B-bf16-share --vllm     # vLLM colocated instead of transformers
    python benchmarks/gpu/bench.py --cases smoke-bf16-share smoke-full-share   # a few thousand weights, on any machine

Nothing is downloaded: speed does not depend on the values of weights. Every reply is cut at --reply tokens. One step more than
--steps is played and not counted. A case that fails prints its error, and the next one runs.
"""

import argparse
import gc
import itertools
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from coevolve.core.arithmetic import pin
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Observation, Score, Task
from coevolve.stages.schema import load
from coevolve.stages.train import grpo
from coevolve.stages.train.learner import Job, Settings
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession

# bf16 matrix rate (dense, FLOP per second) and memory bandwidth (bytes per second), from the makers' data sheets
LIMITS = {"H200": (989e12, 4.8e12), "H100": (989e12, 3.35e12), "A100": (312e12, 2.04e12), "L40S": (362e12, 0.864e12)}
SHAPES = {
    "smoke": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512},
    "135M": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "vocab_size": 49152},
    "0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
    "4B": {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
}  # fmt: skip
TURNS = 2  # replies of an episode
LENGTH = 32768  # tokens that a model reads


class Case(NamedTuple):
    shape: str
    dtype: str
    adapters: bool
    share: bool  # prefixes of training passes
    recompute: bool  # activations, in the backward pass
    tasks: int  # groups of 8 attempts in a step
    rows: int  # attempts in a forward and backward pass


CASES = {
    "135M-fp32-share": Case("135M", "float32", True, True, False, 16, 32),
    "135M-fp32": Case("135M", "float32", True, False, False, 16, 32),
    "135M-bf16-share": Case("135M", "bfloat16", True, True, False, 16, 32),
    "135M-bf16": Case("135M", "bfloat16", True, False, False, 16, 32),
    "135M-full-fp32-share": Case("135M", "float32", False, True, False, 16, 32),
    "135M-full-bf16-share": Case("135M", "bfloat16", False, True, False, 16, 32),
    "0.6B-bf16-share": Case("0.6B", "bfloat16", True, True, False, 8, 16),
    "0.6B-bf16": Case("0.6B", "bfloat16", True, False, False, 8, 16),
    "0.6B-bf16-recompute": Case("0.6B", "bfloat16", True, False, True, 8, 16),
    "4B-bf16-share": Case("4B", "bfloat16", True, True, False, 4, 4),
    "4B-bf16-recompute": Case("4B", "bfloat16", True, False, True, 4, 4),
    "smoke-bf16-share": Case("smoke", "bfloat16", True, True, False, 2, 8),
    "smoke-full-share": Case("smoke", "float32", False, True, False, 2, 8),
}


class BenchSession(MiniworldSession):
    """A few tools, and a reward that differs within every group."""

    number = 0

    def reset(self, task: Task) -> Observation:
        turn = super().reset(task)
        return Observation(turn.role, turn.content, (turn.tools or [])[:8])

    def score(self) -> Score:
        return Score(float(self.number % 2))


class Bench(Miniworld):
    def __init__(self) -> None:
        self._opened = itertools.count()

    def open(self) -> MiniworldSession:
        made = super().open()
        made.__class__ = BenchSession
        made.number = next(self._opened)
        return made


class Played(NamedTuple):
    """The rollout of a step."""

    seconds: float
    sampled: int  # tokens
    read: int  # tokens of prompts and replies


@dataclass
class Measured:
    """Means over the counted steps. Rates are in tokens per second, memory in GB; shares are of the chip's limits, where known."""

    weights: int
    rollout_seconds: float
    training_seconds: float
    sampled_rate: float
    trained_rate: float
    memory: float | None
    matrix_share: float | None
    bandwidth_share: float | None


def make(name: str, folder: Path) -> int:
    """Write a model directory of this shape. Returns its number of parameters."""
    import trl
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from coevolve.policies.tokenizer import build

    tokenizer = build([], [])
    tokenizer.model_max_length = LENGTH
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text()
    config = Qwen3Config(
        **SHAPES[name],
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def settings(case: Case, steps: int, reply: int, vllm: bool) -> Settings:
    """The parameters of this repository, changed for ``case``."""
    params = load(Path(__file__).parents[2] / "params.yaml")
    acting = params.policy.model_copy(
        update={
            "max_turns": TURNS, "episode_tokens": 8192, "reply_tokens": reply, "batch": 256, "max_seconds": 3600.0,
            "dtype": case.dtype, "template": {"enable_thinking": False},
        }
    )  # fmt: skip
    train = params.train.model_copy(
        update={
            "learner": "grpo", "steps": steps + 1, "tasks_per_step": case.tasks, "group_size": 8, "micro_batch": case.rows,
            "gradient_checkpointing": case.recompute, "share_prefixes": case.share, "curriculum": "even", "keep_base": 0.0,
            "save_steps": 999, "lora": params.train.lora.model_copy(update={"enabled": case.adapters, "rank": 16}),
            "vllm": params.train.vllm.model_copy(update={"mode": "colocate" if vllm else "off", "memory": 0.4}),
        }
    )  # fmt: skip
    learner = params.learner.model_copy(update={"learning_rate": 1e-5, "refill_rounds": 0, "beta": 0.0})
    return Settings(train, acting, params.launch, learner)


def timed(rollout: Callable[..., Any], played: list[Played]) -> Callable[..., Any]:
    """``rollout`` that adds what it took to ``played``."""

    def run(*args: Any, **more: Any) -> Any:
        began = time.perf_counter()
        episodes = rollout(*args, **more)
        replies = [reply for episode in episodes for reply in episode.replies]
        sampled = sum(len(reply.token_ids) for reply in replies)
        read = sampled + sum(len(reply.prompt_ids) for reply in replies)
        played.append(Played(time.perf_counter() - began, sampled, read))
        return episodes

    return run


def measure(case: Case, steps: int, reply: int, vllm: bool, folder: Path) -> Measured:
    """Train ``steps`` counted steps and one before them, in ``folder``."""
    weights = make(case.shape, folder / "model")
    world, played, ends = Bench(), [], []
    files = ("policy", "trajectories.parquet", "metrics.jsonl", "scratch", "model")
    job = Job(0, 0, folder / "model", world.tasks("seed")[:64], *(folder / file for file in files))
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    original = grpo.rollout
    grpo.rollout = timed(original, played)
    try:
        grpo.learn(settings(case, steps, reply, vllm), world, job, lambda *_: ends.append(time.perf_counter()))
    finally:
        grpo.rollout = original
    seconds, sampled, read = (sum(values) for values in zip(*played[1:], strict=True))
    training = ends[-1] - ends[0] - seconds
    rate, bandwidth = next(
        (limit for key, limit in LIMITS.items() if cuda and key in torch.cuda.get_device_name()), (None, None)
    )
    flops = (4 if case.adapters else 6) * weights * read  # adapters need no gradients of the frozen weights
    size = 2 if case.dtype == "bfloat16" else 4  # bytes of a weight
    passes = steps * TURNS * reply  # all episodes advance together: each pass reads all weights once
    return Measured(
        weights=weights,
        rollout_seconds=seconds / steps,
        training_seconds=training / steps,
        sampled_rate=sampled / seconds,
        trained_rate=read / training,
        memory=torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
        matrix_share=flops / training / rate if rate else None,
        bandwidth_share=size * weights * passes / seconds / bandwidth if bandwidth else None,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    real = [name for name in CASES if not name.startswith("smoke")]
    parser.add_argument("--cases", nargs="+", choices=CASES, default=real, help="(default: all but smoke)")
    parser.add_argument("--vllm", action="store_true", help="generate by colocated vLLM (default: by transformers)")
    parser.add_argument("--steps", type=int, default=3, help="counted steps (3)")
    parser.add_argument("--reply", type=int, default=128, help="tokens in a reply (128)")
    parser.add_argument("--out", type=Path, help="also append each case as a line of JSON")
    args = parser.parse_args()
    pin()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    engine = "vLLM" if args.vllm else "transformers"
    print(f"{datetime.now(UTC).date()}, {device}, torch {torch.__version__}, generation by {engine}")
    print(
        "| case | rollout, s per step | training, s per step | sampled tokens/s | trained tokens/s | memory, GB | matrix rate | bandwidth |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    failed = 0
    for name in args.cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = asdict(measure(CASES[name], args.steps, args.reply, args.vllm, Path(folder)))
                cells = [
                    "-" if value is None else format(value, ".1%" if key.endswith("share") else ".3g")
                    for key, value in list(found.items())[1:]
                ]
                print(f"| {name} | {' | '.join(cells)} |", flush=True)
            except (CoevolveError, RuntimeError) as error:
                failed += 1
                found = {"error": f"{type(error).__name__}: {error}"[:400]}
                traceback.print_exc(limit=-4)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps({"case": name, "device": device, **found}) + "\n")
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
