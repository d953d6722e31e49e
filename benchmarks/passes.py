"""Compare training passes that share prefixes with TRL's passes: seconds and peak memory of forward and backward.

    python benchmarks/passes.py

Rows are those of GRPO: K attempts at each of some tasks, all with the same tools in their prompt. Each measurement runs in a separate
process, one after another, and takes the median of several passes.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TINY = Path(__file__).parents[1] / "policies/base"
CASES = {  # name: shared tokens (tools), tasks, tokens of a task, tokens of an attempt: shortest and longest
    "tiny policy, 318 shared": (318, 3, 20, (40, 180)),
    "Qwen3, 500 shared": (500, 1, 60, (100, 260)),
    "Qwen3, 1,500 shared": (1500, 1, 60, (100, 260)),
    "Qwen3, 4,000 shared": (4000, 1, 60, (100, 260)),
}
K = 8


def model_of(name: str) -> Any:
    from transformers import AutoModelForCausalLM, Qwen3Config

    if name.startswith("tiny"):
        return AutoModelForCausalLM.from_pretrained(TINY)
    return AutoModelForCausalLM.from_config(
        Qwen3Config(
            vocab_size=32_000,
            hidden_size=512,
            intermediate_size=1536,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=64,
        )
    )


def measure(name: str, ours: bool, rounds: int) -> dict[str, float]:
    """Seconds of a pass, its peak memory in MB above that of the loaded model, and the sum of the log-probabilities."""
    import torch
    from trl.trainer.utils import add_fused_lm_head

    from coevolve.stages.train.parallel_grpo import scored_pass
    from coevolve.stages.train.shared_prefix import share_prefixes

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = model_of(name).train()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if ours:
        share_prefixes(model)
    tools, tasks, task, (shortest, longest) = CASES[name]
    words = model.config.vocab_size
    common = torch.randint(5, words, (tools,)).tolist()
    lengths = torch.linspace(shortest, longest, K).long().tolist()
    rows = [
        common + prompt + torch.randint(5, words, (length,)).tolist()
        for _ in range(tasks)
        for prompt in [torch.randint(5, words, (task,)).tolist()]
        for length in lengths
    ]
    ids = torch.zeros((len(rows), tools + task + longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)], mask[index, : len(row)] = torch.tensor(row), 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(rounds):
        model.zero_grad()
        began = time.perf_counter()
        if ours:
            logps = scored_pass(model, ids, mask, longest, shares=True).log_probs
        else:
            labels = ids.masked_fill(mask == 0, -100)
            labels[:, :-longest] = -100
            logps = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs[:, -longest:]
        (logps * mask[:, -longest:]).sum().backward()
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    total = float((logps.detach() * mask[:, -longest:]).sum())
    return {"seconds": statistics.median(seconds), "megabytes": peak / 1024, "sum": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="passes of each measurement (default: 3)")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "WHOSE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure[0], args.measure[1] == "ours", args.rounds)))
        return
    print("| rows | TRL, s | ours, s | ratio | TRL, MB | ours, MB | ratio |\n|---|---|---|---|---|---|---|")
    for name in CASES:
        found = []
        for whose in ("TRL", "ours"):
            command = [sys.executable, __file__, "--rounds", str(args.rounds), "--measure", name, whose]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
        trl, ours = found
        print(
            f"| {name}, {CASES[name][1] * K} rows | {trl['seconds']:.2f} | {ours['seconds']:.2f} "
            f"| {trl['seconds'] / ours['seconds']:.2f} | {trl['megabytes']:.0f} | {ours['megabytes']:.0f} "
            f"| {trl['megabytes'] / ours['megabytes']:.1f} |",
            flush=True,
        )
        assert abs(trl["sum"] - ours["sum"]) <= 1e-5 * abs(trl["sum"]), found


if __name__ == "__main__":
    main()
