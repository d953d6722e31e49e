"""Rollouts of verifiers and prime-rl: an episode a line, or a trace a line.

A trace holds a graph of messages. Its last branch is the rollout, as verifiers' own ``Trace.messages`` has it, and its
score is the weighted sum of its rewards (``Trace.reward``). Traces of agents that are not trained are left out, and
those of evaluations within a training run. prime-rl wrote traces.jsonl until August 2026, in the folders `all` and
`effective`, then a stream of chunks, sealed with zstd.
"""

from collections.abc import Iterator
from typing import Any

from coevolve.rollouts.chats import UNTOLD, Message, Unreadable
from coevolve.rollouts.own_episodes import as_chat
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, inner, number, rollout, step_of


def read(value: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    traces = value.get("traces") if "traces" in value else [value]
    if not isinstance(traces, list) or not all(isinstance(trace, dict) for trace in traces):
        raise Unreadable("traces: expected a list of traces")
    if not traces or not {"traces", "nodes"} & set(value):
        raise Unreadable("the episode holds no trace")
    work = inner(inner(value, "run"), "work")
    step = step_of(work.get("step")) if work.get("type") == "train" else None
    trained = [trace for trace in traces if inner(trace, "agent").get("trainable", True)]
    for _ in range(len(traces) - len(trained)):
        options.remark("traces of agents that are not trained, left out")
    for position, trace in enumerate(trained):
        name = trace.get("id")
        if "eval" in (work.get("type"), trace.get("kind"), inner(trace, "info").get("kind")):
            options.remark("rollouts of evaluations within a training run, left out")
        elif isinstance(name, str) and not options.first(name):
            options.remark("rollouts that the files hold twice, left out")
        else:
            yield _rollout(trace, place.where if len(trained) == 1 else f"{place.where}.{position}", step, options)


def _rollout(trace: dict[str, Any], where: str, step: int | None, options: Options) -> RolloutRow:
    task = inner(trace, "task")
    data = inner(task, "data")
    score, failure = _score(trace, options)
    messages = _branch(trace, options)
    if not messages and failure:  # it ended before the first message
        messages = as_chat(data.get("prompt"), "user")
    found = [data.get("task_id"), data.get("id"), task.get("key"), data.get("name"), task.get("hash")]
    names = tuple(name for name in found if isinstance(name, str))
    return rollout(where, messages, score, "score", {"step": step}, names=names, failure=failure)


def _score(trace: dict[str, Any], options: Options) -> tuple[float, str]:
    """The score, or why there is none: an error that verifiers recorded, or no reward."""
    errors, stop = trace.get("errors") or [], trace.get("stop_condition")
    if errors or (isinstance(stop, str) and stop.endswith("error")):
        return 0.0, str(stop or "error")[:100]
    rewards = {name: reward for name, reward in inner(trace, "rewards").items() if isinstance(reward, dict)}
    if options.reward is not None:
        if options.reward not in rewards:
            raise Unreadable(f"no reward is called {options.reward}")
        return number(rewards[options.reward].get("score"), options.reward), ""
    if not rewards:
        return 0.0, "no reward was recorded"
    values = [
        number(reward.get("score"), name) * number(reward.get("weight", 1.0), f"weight of {name}")
        for name, reward in rewards.items()
    ]
    return number(sum(values), "weighted sum of the rewards"), ""


def _branch(trace: dict[str, Any], options: Options) -> list[Message]:
    """The messages from the root to the last leaf of the graph."""
    nodes = trace.get("nodes") or []
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise Unreadable("nodes: expected a list of messages with their parents")
    parents = [node.get("parent") for node in nodes]
    if any(
        parent is not None and not (isinstance(parent, int) and 0 <= parent < row) for row, parent in enumerate(parents)
    ):
        raise Unreadable("nodes: a parent is no earlier node")
    leaves = sorted(set(range(len(nodes))) - set(parents))
    if len(leaves) > 1:
        options.remark("rollouts with several branches (compaction or subagents), of which the last is read")
    path: list[Message] = []
    position = leaves[-1] if leaves else None
    while position is not None:
        path.append(dict(inner(nodes[position], "message")))
        position = parents[position]
    return path[::-1]


VERIFIERS = RolloutFormat(
    "verifiers",
    "verifiers and prime-rl",
    ("traces.jsonl", "stream.jsonl", "stream/[0-9]*.jsonl", "stream/[0-9]*.jsonl.zst"),
    f"no step outside training runs; {UNTOLD}",
    lambda row: "traces" in row or {"nodes", "task"} <= set(row),
    read,
    others=("stream.index.jsonl", "annotations/*.jsonl", "eval_rollouts*.jsonl"),
)
