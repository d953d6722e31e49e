"""Measure rollouts per second, and compare their tokens per second with bare `generate`.

`python benchmarks/rollouts.py [--tasks 16] [--group 8]`

Both use the same model, prompts, lengths and sampling, in one process and one thread, so the ratio is the result. If models/smollm2
exists (`python benchmarks/smollm2.py`), the script also measures its decoding: with one copy of the tools' keys for all rows, and
with a copy for each row. The comparison with TRL's loop is in this file at commit deb5960.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from coevolve.core.arithmetic import pin
from coevolve.environments.registry import make
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Episode, Limits, RolloutRequest, rollout

ROOT = Path(__file__).parent.parent
POLICY = ROOT / "src/coevolve_environments/miniworld/policy"
SMOLLM2 = ROOT / "models/smollm2"
WORLD = make("miniworld")
LIMITS = Limits(max_turns=16, episode_tokens=704, reply_tokens=64, max_seconds=600.0)


def our_seconds(model: Any, tokenizer: Any, tasks: list[Any], group: int) -> tuple[float, list[Episode]]:
    policy = TransformersPolicy(model, tokenizer, 1.0)
    assignments = [RolloutRequest(task, seed) for task in tasks for seed in range(group)]
    began = time.perf_counter()
    episodes = rollout(policy, WORLD, assignments, LIMITS)
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
    ours, episodes = our_seconds(model, tokenizer, tasks, args.group)
    print(f"{len(episodes) / ours:6.1f} rollouts/s", flush=True)
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
