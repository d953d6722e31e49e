"""Compare rollouts per second with TRL's `environment_factory` loop, and tokens per second with bare `generate`.

`python benchmarks/rollouts.py [--tasks 16] [--group 8]`

All use the same model, tasks, K, sampling and limits, in one process and one thread, so the ratio is the result. If models/smollm2
exists (`python benchmarks/smollm2.py`), the script also measures its decoding: with one copy of the tools' keys for all rows, and with a
copy for each row.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from coevolve.core.arithmetic import pin
from coevolve.core.task import Observation, ToolCall
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.environments.registry import make
from coevolve.environments.trl import environment_factory
from coevolve.policies.agent_prompt import RESPONSE_TEMPLATE
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Episode, Limits, RolloutRequest, rollout

POLICY = Path(__file__).parent.parent / "policies/base"
SMOLLM2 = POLICY.parents[1] / "models/smollm2"
WORLD = make("miniworld")
LIMITS = Limits(max_turns=16, episode_tokens=704, reply_tokens=64, max_seconds=600.0)


class Slow(MiniworldSession):
    """miniworld whose tools take ``latency`` seconds."""

    latency = 0.0

    def step(self, call: ToolCall) -> Observation:
        if self.latency:
            time.sleep(self.latency)
        return super().step(call)


class SlowWorld(Miniworld):
    def open(self) -> Slow:
        return Slow()


def trl_seconds(model: Any, tokenizer: Any, tasks: list[Any], group: int) -> tuple[float, int]:
    """Seconds that TRL takes for the rollouts of one step, and the number of generated tokens."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tokenizer.response_template = RESPONSE_TEMPLATE
    rows = [{"prompt": [{"role": "user", "content": task.turns[0]}], "task_id": task.task_id} for task in tasks]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=len(tasks) * group,
                num_generations=group,
                max_completion_length=LIMITS.episode_tokens,
                max_tool_calling_iterations=LIMITS.max_turns,
                temperature=1.0,
                beta=0.0,
                use_cpu=True,
                bf16=False,
                report_to="none",
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            environment_factory=environment_factory(SlowWorld()),
        )
        trainer.model.train()
        inputs = [row for row in rows for _ in range(group)]
        # 64 tokens per reply, as in coevolve: TRL only limits the whole episode
        trainer.generation_config.max_new_tokens = LIMITS.reply_tokens
        torch.manual_seed(0)
        began = time.perf_counter()
        result = trainer._generate_and_score_completions(inputs)
        seconds = time.perf_counter() - began
    mask = result["completion_mask"] * result.get("tool_mask", 1)
    return seconds, int(mask.sum())


def our_seconds(model: Any, tokenizer: Any, tasks: list[Any], group: int) -> tuple[float, list[Episode]]:
    policy = TransformersPolicy(model, tokenizer, 1.0)
    assignments = [RolloutRequest(task, seed) for task in tasks for seed in range(group)]
    began = time.perf_counter()
    episodes = rollout(policy, SlowWorld(), assignments, LIMITS)
    return time.perf_counter() - began, episodes


def generate_seconds(model: Any, tokenizer: Any, episodes: list[Episode]) -> tuple[float, int]:
    """Seconds of a single bare ``generate`` for the same number of rows, prompts and generated tokens."""
    prompts = [episode.replies[0].prompt_ids for episode in episodes]
    lengths = [sum(len(reply.token_ids) for reply in episode.replies) for episode in episodes]
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[tokenizer.pad_token_id] * (width - len(prompt)) + prompt for prompt in prompts])
    longest = max(lengths)
    began = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            ids,
            attention_mask=(ids != tokenizer.pad_token_id).long(),
            do_sample=True,
            temperature=1.0,
            min_new_tokens=longest,
            max_new_tokens=longest,
            pad_token_id=tokenizer.pad_token_id,
        )
    return time.perf_counter() - began, sum(lengths)


def decoding_seconds(rows: int, once: bool) -> float:
    """Seconds in which SmolLM2 samples a token for each of ``rows`` conversations: the median over their first replies."""
    policy = TransformersPolicy(*load(SMOLLM2), 1.0)
    if not once:
        policy._attends = False
    seconds = []
    forward = policy._forward

    def timed(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        began = time.perf_counter()
        logits = forward(tokens, mask)
        if tokens.shape == (rows, 1):
            seconds.append(time.perf_counter() - began)
        return logits

    policy._forward = timed
    requests = [RolloutRequest(task, seed) for seed, task in enumerate(WORLD.tasks("test")[:rows])]
    rollout(policy, WORLD, requests, Limits(max_turns=1, episode_tokens=4096, reply_tokens=12, max_seconds=600.0))
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    args = parser.parse_args()
    pin()
    torch.set_num_threads(1)
    tasks = list(WORLD.tasks("seed")[: args.tasks])
    model, tokenizer = load(POLICY)
    our_seconds(model, tokenizer, tasks, 1)  # warm
    count = args.tasks * args.group
    for latency in (0.0, 0.02):
        Slow.latency = latency
        ours, episodes = our_seconds(model, tokenizer, tasks, args.group)
        theirs, _ = trl_seconds(*load(POLICY), tasks, args.group)
        print(
            f"{1000 * latency:3.0f} ms a tool: ours {count / ours:6.1f} rollouts/s, TRL environment_factory "
            f"{count / theirs:6.1f} rollouts/s, ratio {theirs / ours:.1f}",
            flush=True,
        )
    Slow.latency = 0.0
    ours, episodes = our_seconds(model, tokenizer, tasks, args.group)
    tokens = sum(len(reply.token_ids) for episode in episodes for reply in episode.replies)
    bare, same = generate_seconds(model, tokenizer, episodes)
    print(
        f"tokens: ours {tokens / ours:.0f}/s inside rollouts, bare generate {same / bare:.0f}/s for the same rows and "
        f"lengths, ratio {tokens / ours / (same / bare):.2f}",
        flush=True,
    )
    for rows in (8, 32, 64) if (SMOLLM2 / "config.json").exists() else ():
        apart, once = (decoding_seconds(rows, kept) for kept in (False, True))
        print(
            f"SmolLM2, {rows} rows: {apart:.3f} s a token with a copy of the tools' keys for each row, {once:.3f} s with one "
            f"copy, ratio {apart / once:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
