"""The costs of a training, and its success on the training tasks."""

from collections.abc import Mapping, Sequence

from coevolve.core.stage_summary import TOKENS, StageSummary

# metrics of DPO at the last step: beta times the log-ratios to the anchor, of both sides and their difference
PREFERENCE = {
    "margin": "margin of pairs",
    "accuracy": "pairs ranked right",
    "chosen": "log-ratio of chosen episodes",
    "rejected": "log-ratio of rejected episodes",
}


def summary(t: int, steps: Sequence[Mapping[str, float]], group_size: int) -> StageSummary:
    """The summary of the ``steps`` in train_metrics.jsonl."""
    groups = int(sum(step["groups"] for step in steps))
    costs = {
        "gradient steps": len(steps),
        "training episodes": groups * group_size,
        TOKENS: int(sum(step["tokens"] for step in steps)),
    }
    success = {
        "success at the first step": steps[0]["success"] if steps else None,
        "success at the last step": steps[-1]["success"] if steps else None,
    }
    last = steps[-1] if steps else {}
    preferred = {title: last[name] for name, title in PREFERENCE.items() if name in last}
    wasted = int(sum(step["groups_without_variance"] for step in steps))
    waste = {"share of groups that teach nothing": wasted / groups if groups else None}
    return StageSummary(
        "train",
        t,
        {**costs, **success, "groups": groups, "groups without variance": wasted, **waste, **preferred},
        costs=list(costs),
    )
