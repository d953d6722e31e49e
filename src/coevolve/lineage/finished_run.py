"""The files of a finished run: as records (`coevolve.read_run` in Python), and as chat messages and pairs for other tools."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_json, read_jsonl, read_tasks
from coevolve.core.outcomes import OUTCOMES, Outcome
from coevolve.core.paths import Paths
from coevolve.core.records import Pair, Signal, Verdict
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.policies.agent_prompt import message_of
from coevolve.stages.report.run_summary import SUMMARY, Summary

Record = TypeVar("Record")
Message = dict[str, Any]
Tools = Sequence[Mapping[str, Any]]

EPISODES = ("rehearsals", "references", "hard")  # the files with the episodes of pairs


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run. Lists are by iteration: policy t plays evaluation t, learns from dataset t, and shows signals t.

    ``policies`` are model directories. A run of three iterations has four datasets, policies and evaluations.
    """

    folder: Path
    summary: Summary
    policies: list[Path]
    datasets: list[list[Task]]
    evaluations: list[list[Outcome]]
    signals: list[list[Signal]]
    verdicts: list[list[Verdict]]

    def trajectories(self, t: int) -> list[Trajectory]:
        """The episodes of training in iteration ``t``. They are large, so nothing else reads them."""
        return read_trajectories(self.folder / Paths.trajectories(t))


def read_run(path: str | Path) -> FinishedRun:
    """Read the run in the project folder ``path``. A file that is missing or damaged is a CoevolveError that names it."""
    folder = Path(path)
    file = folder / SUMMARY
    summary = parse(Summary, read_json(file), str(file))

    def each(count: int, read: Callable[[int], Record]) -> list[Record]:
        return [read(t) for t in range(count)]

    last = summary.last
    return FinishedRun(
        folder=folder,
        summary=summary,
        policies=each(last + 1, lambda t: folder / Paths.policy(t)),
        datasets=each(last + 1, lambda t: read_tasks(folder / Paths.tasks(t))),
        evaluations=each(last + 1, lambda t: read_jsonl(folder / Paths.evaluation(t) / OUTCOMES, Outcome)),
        signals=each(last, lambda t: read_jsonl(folder / Paths.signals(t), Signal)),
        verdicts=each(last, lambda t: read_jsonl(folder / Paths.verified(t) / "verdicts.jsonl", Verdict)),
    )


def conversation(messages: Sequence[Message]) -> list[Message]:
    """OpenAI chat messages, with the agent's calls as ``tool_calls`` and arguments as objects. An unreadable reply stays text."""
    return [
        message_of(one["content"]) if one["role"] == "assistant" else {"role": one["role"], "content": one["content"]}
        for one in messages
    ]


def supervised(episodes: Iterable[Trajectory], tools: Mapping[str, Tools]) -> Iterator[dict[str, Any]]:
    """A row per episode, up to the agent's last message: ``messages`` and ``tools``. Episodes of a task with equal calls count once."""
    seen: set[str] = set()
    for one in episodes:
        said = [place for place, message in enumerate(one.messages) if message["role"] == "assistant"]
        key = json.dumps([one.task_id, [[call.name, call.arguments] for call in one.calls]])
        if said and one.task_id in tools and key not in seen:
            seen.add(key)
            messages = conversation(one.messages[: said[-1] + 1])
            yield {"messages": messages, "tools": list(tools[one.task_id]), "task_id": one.task_id}


def preferences(t: int, tools: Mapping[str, Tools]) -> Iterator[dict[str, Any]]:
    """A row per pair of iteration ``t``: ``prompt``, ``chosen`` and ``rejected`` as messages."""
    folder = Paths.pairs(t)
    pairs = read_jsonl(folder / "pairs.jsonl", Pair)
    if not pairs:
        raise CoevolveError(
            f"{folder}/pairs.jsonl: no pairs; runs have pairs if params.yaml sets train.learner to dpo or sft"
        )
    played = {one.trajectory_id: one for name in EPISODES for one in read_trajectories(folder / f"{name}.parquet")}
    for pair in pairs:
        sides = [played[name].messages for name in (pair.chosen, pair.rejected)]
        starts = [[place for place, message in enumerate(side) if message["role"] == "assistant"] for side in sides]
        cut = starts[0][0]
        chosen, rejected = (conversation(side[cut : said[-1] + 1]) for side, said in zip(sides, starts, strict=True))
        yield {
            "prompt": conversation(sides[0][:cut]),
            "chosen": chosen,
            "rejected": rejected,
            "tools": list(tools.get(pair.task_id, ())),
            "task_id": pair.task_id,
            "kind": pair.kind,
        }
