"""Convert a run's data for other tools: to chat messages and preference pairs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Pair
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.policies.agent_prompt import message_of

Message = dict[str, Any]
Tools = Sequence[Mapping[str, Any]]

EPISODES = ("rehearsals", "references", "hard")  # the files with the episodes of pairs


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
