"""Measure GRPO steps of Qwen3-shaped models with LoRA on one GPU: tokens per second, memory, and the share of the chip's limits.

    python benchmarks/gpu.py                     # 0.6B and 4B, transformers generating
    python benchmarks/gpu.py --models 4B --vllm  # vLLM colocated
    python benchmarks/gpu.py --models smoke      # a few thousand weights, on any machine, to test the script

The models have random weights, so nothing is downloaded. Speed does not depend on the values of weights. Every reply is cut at
--reply tokens. Prints a Markdown table for docs/training-at-size.md.
"""

import argparse
import itertools
import math
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from coevolve.core.arithmetic import pin
from coevolve.core.task import Observation, Score, Task
from coevolve.environments.environment import Environment
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.stages.schema import load
from coevolve.stages.train import grpo
from coevolve.stages.train.learner import Job, Settings

# bf16 matrix rate (dense, FLOP per second) and memory bandwidth (bytes per second), from the makers' data sheets
LIMITS = {"H200": (989e12, 4.8e12), "H100": (989e12, 3.35e12), "A100": (312e12, 2.04e12), "L40S": (362e12, 0.864e12)}
SHAPES = {
    "smoke": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512},
    "0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
    "4B": {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
}  # fmt: skip
WARM = 1  # first steps that do not count


class BenchSession(MiniworldSession):
    """A few tools, and a reward that differs within every group."""

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


@dataclass
class Clock:
    """Seconds and tokens of the rollout of every step, and seconds of the whole step."""

    rollout: list[float] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def watch(self) -> None:
        whole = grpo.play

        def timed(policy: Any, environment: Environment, *rest: Any, **more: Any) -> Any:
            began = time.perf_counter()
            episodes = whole(policy, environment, *rest, **more)
            self.rollout.append(time.perf_counter() - began)
            replies = [reply for episode in episodes for reply in episode.replies]
            self.prompt.append(sum(len(reply.prompt_ids) for reply in replies))
            self.sampled.append(sum(len(reply.token_ids) for reply in replies))
            return episodes

        grpo.play = timed

    def step(self, *_: Any) -> None:
        self.ends.append(time.perf_counter())


def make(name: str, folder: Path) -> int:
    """Write a model directory of this shape. Returns its number of parameters."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from coevolve.stages.base.tokenizer import build

    tokenizer = build([], [])
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    import trl

    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text()
    config = Qwen3Config(
        **SHAPES[name],
        max_position_embeddings=32768,
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


def measure(name: str, args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Tokens per second of rollout and training, memory, and shares of the chip's limits."""
    params = load(Path(__file__).parents[1] / "params.yaml")
    cuda = torch.cuda.is_available()
    acting = params.policy.model_copy(
        update={
            "max_turns": 1, "episode_tokens": 8192, "reply_tokens": args.reply, "max_seconds": 3600.0,
            "dtype": "bfloat16" if cuda else "float32", "template": {"enable_thinking": False},
        }
    )  # fmt: skip
    lora = params.train.lora.model_copy(update={"enabled": True, "rank": 16})
    vllm = params.train.vllm.model_copy(update={"mode": "colocate" if args.vllm else "off", "memory": 0.4})
    config = params.train.model_copy(
        update={
            "steps": args.steps + WARM, "tasks_per_step": args.tasks, "group_size": 8,
            "micro_batch": args.micro_batch, "gradient_checkpointing": True, "lora": lora, "vllm": vllm, "save_steps": 999,
        }
    )  # fmt: skip
    own = params.grpo.model_copy(update={"learning_rate": 1e-5, "refill_rounds": 0, "beta": 0.001})
    weights = make(name, folder / "model")
    clock, world = Clock(), Bench()
    clock.watch()
    job = Job(
        0, 0, folder / "model", world.tasks("seed")[:64], folder / "policy", folder / "trajectories.parquet",
        folder / "metrics.jsonl", folder / "scratch", folder / "model",
    )  # fmt: skip
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    grpo.learn(replace(Settings.of(params), train=config, policy=acting, grpo=own), world, job, clock.step)
    played = slice(WARM, None)
    rollout = sum(clock.rollout[played])
    sampled, read = sum(clock.sampled[played]), sum(clock.prompt[played]) + sum(clock.sampled[played])
    training = clock.ends[-1] - clock.ends[WARM - 1] - rollout
    # LoRA: forward, backward through frozen weights, and the reference's forward; recomputation does not count
    flops = (4 + 2) * weights * read
    rate, bandwidth = next(
        (limit for key, limit in LIMITS.items() if cuda and key in torch.cuda.get_device_name()), (0, 0)
    )
    passes = args.steps * args.reply  # all episodes advance together: each pass reads all weights once
    return {
        "parameters": weights,
        "rollout": sampled / rollout,
        "training": read / training,
        "memory": torch.cuda.max_memory_allocated() / 1e9 if cuda else float("nan"),
        "matrix": flops / training / rate if rate else float("nan"),
        "bandwidth": 2 * weights * passes / rollout / bandwidth if bandwidth else float("nan"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=["0.6B", "4B"])
    parser.add_argument("--vllm", action="store_true", help="generate by colocated vLLM (default: by transformers)")
    parser.add_argument("--steps", type=int, default=3, help="counted steps (3)")
    parser.add_argument("--tasks", type=int, default=4, help="groups of 8 episodes per step (default: 4)")
    parser.add_argument("--reply", type=int, default=256, help="tokens in a reply (default: 256)")
    parser.add_argument(
        "--micro-batch", type=int, default=4, help="episodes in a forward and backward pass (default: 4)"
    )
    args = parser.parse_args()
    pin()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(
        f"{datetime.now(UTC).date()}, {device}, torch {torch.__version__}, generation by {'vLLM' if args.vllm else 'transformers'}"
    )
    print("| model | rollout tokens/s | training tokens/s | memory, GB | matrix rate, training | bandwidth, rollout |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in args.models:
        with tempfile.TemporaryDirectory() as folder:
            one = measure(name, args, Path(folder))
        print(
            f"| Qwen3-{name} ({one['parameters'] / 1e9:.2g} B) | {one['rollout']:,.0f} | {one['training']:,.0f} | "
            f"{shown(one['memory'], '.1f')} | {shown(one['matrix'], '.1%')} | {shown(one['bandwidth'], '.1%')} |",
            flush=True,
        )


def shown(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


if __name__ == "__main__":
    main()
