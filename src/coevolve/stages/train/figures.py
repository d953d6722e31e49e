"""What a training took, and how success went on its own tasks."""

from collections.abc import Mapping, Sequence

from coevolve.core.stage_summary import TOKENS, StageSummary

RESCUED = "references imitated"  # for tasks that were never solved


def summary(t: int, steps: Sequence[Mapping[str, float]], group_size: int) -> StageSummary:
    """``steps``: the lines of train_metrics.jsonl."""
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
    rescued = {RESCUED: int(sum(step["rescued"] for step in steps))} if any("rescued" in step for step in steps) else {}
    wasted = int(sum(step["groups_without_variance"] for step in steps))
    waste = {"share of groups that teach nothing": wasted / groups if groups else None}
    return StageSummary(
        "train",
        t,
        {**costs, **success, "groups": groups, "groups without variance": wasted, **waste, **rescued},
        costs=[*costs, *rescued],
        plots={"success while training": list(success), "groups of equal rewards": list(waste)},
    )
