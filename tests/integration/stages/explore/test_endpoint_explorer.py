"""An LLM explores and writes tasks: a real server, a real environment, and a proxy that breaks every third request."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.core.records import Candidate, Exploration, Signal
from coevolve.core.trajectories import Trajectory, write_trajectories
from coevolve.endpoint.client import Endpoint, open_endpoint
from coevolve.endpoint.spending import Meter
from coevolve.environments.knowledge import learn
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.endpoint_explorer import EndpointExplorer
from coevolve.stages.explore.explorer import Means, explore
from coevolve.stages.explore.requests import Request, requests
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.table import open_table
from coevolve.stages.synthesize.endpoint_synthesizer import EndpointSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests.integration.endpoint.proxy import proxy
from tests.unit.stages.train.small import PARAMS, WORLD
from tests.waiting import PATIENCE

TASKS = WORLD.tasks("seed")[:24]
Weak = tuple[list[Trajectory], list[Signal]]
Server = tuple[str, str]  # URL and model


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> Weak:
    """Trajectories of an agent that omits calls, and their signals."""
    file = tmp_path_factory.mktemp("weak") / "trajectories.parquet"
    assignments = [
        RolloutRequest(task, 100 * step + sample, step=step, group=group, sample=sample)
        for step in range(2)
        for group, task in enumerate(TASKS)
        for sample in range(4)
    ]
    episodes = rollout(ReferencePolicy(WORLD, 0.3), WORLD, assignments, Limits(60, 10**6, 64, PATIENCE))
    trajectories = [episode.trajectory for episode in episodes]
    write_trajectories(file, trajectories)
    with open_table(file) as table:
        return trajectories, list(extract(table, 0, PARAMS.signals))


def wanted(weak: Weak, count: int, guidance: str = "signals") -> list[Request]:
    config = PARAMS.explore.model_copy(update={"explorations": count, "guidance": guidance})
    return requests(WORLD, TASKS, *weak, config, 0, 0)


def endpoint(url: str, model: str, log: Path, **changes: object) -> Endpoint:
    updates = {"url": url, "model": model, "temperature": 0.0, "concurrency": 4, "timeout": PATIENCE, **changes}
    return open_endpoint(PARAMS.endpoint.model_copy(update=updates), log)


def explored(one: Endpoint, asked: list[Request], counts: Counter[str] | None = None) -> list[Exploration]:
    meter = Meter(one, Counter() if counts is None else counts)
    acting = PARAMS.policy.model_copy(update={"max_seconds": PATIENCE})
    explorer = EndpointExplorer(PARAMS.explore, Means(WORLD, learn(WORLD, TASKS), acting, meter))
    return explore(explorer, asked, lambda count: None)


def written(one: Endpoint, found: list[Exploration], count: int) -> list[Candidate]:
    return synthesize(EndpointSynthesizer(WORLD, TASKS, 0, Meter(one)), found, count, lambda count: None)


def test_reflection_guides_real_calls_that_become_verified_tasks(
    weak: Weak, explorer_server: Server, tmp_path: Path
) -> None:
    one, counts = endpoint(*explorer_server, tmp_path / "log.jsonl", temperature=1.0), Counter[str]()
    found = explored(one, wanted(weak, 12), counts)
    assert len(found) >= 10
    for exploration in found:
        assert exploration.explorer == "endpoint" and exploration.signal_ids
        assert [version.partition("-")[0] for version in exploration.prompts] == ["reflect", "explore"]
        assert all(call.ok for call in exploration.calls)
    reflections = [exploration.reflection for exploration in found if exploration.reflection]
    assert len(found) - counts["dropped"] <= len(reflections) and len(reflections) >= 6
    assert all(one.what_failed and one.where and one.why and one.ideas for one in reflections)
    candidates = written(one, found, 64)
    assert all(one.task.provenance and one.task.provenance.prompt_version for one in candidates)
    judged = verify("miniworld", [json.dumps(asdict(one)) for one in candidates], Library(TASKS, {}, 0.9))
    accepted = [task for verdict, task in judged if verdict.accepted and task]
    assert len(accepted) >= 3
    assert all(task.turns[0].startswith("please plan a ") for task in accepted)


def test_explorer_without_signals_is_guided_by_tools(weak: Weak, explorer_server: Server, tmp_path: Path) -> None:
    uses, mean = learn(WORLD, TASKS).uses, {}
    for guidance in ("coverage", "random"):
        one = endpoint(*explorer_server, tmp_path / f"{guidance}.jsonl")
        found = explored(one, wanted(weak, 16, guidance))
        told = json.dumps([line["request"] for line in one.used()])
        for exploration in found:
            assert exploration.signal_ids == [] and exploration.kind is None and exploration.reflection is None
            assert exploration.prompts[0].startswith("explore_tools-")
            assert exploration.goals and f"- use {', '.join(exploration.goals)}" in told
        goals = [goal for exploration in found for goal in exploration.goals]
        mean[guidance] = sum(uses[goal] for goal in goals) / len(goals)
    assert mean["coverage"] < 0.8 * mean["random"]


def test_broken_requests_lose_no_exploration_and_are_not_paid_twice(
    weak: Weak, explorer_server: Server, tmp_path: Path
) -> None:
    asked = wanted(weak, 8)
    with proxy(explorer_server[0]) as sound:
        whole = explored(endpoint(sound.url, explorer_server[1], tmp_path / "whole.jsonl"), asked)
    with proxy(explorer_server[0], share=0.3, known=sound.replies) as broken:
        careful = {"timeout": 5.0, "retries": 8, "budget_requests": 400}
        one = endpoint(broken.url, explorer_server[1], tmp_path / "log.jsonl", **careful)
        assert explored(one, asked) == whole
        assert all(broken.faults.values()), broken.faults
        assert one.spend.requests <= 400
        paid = len({json.dumps(line["request"]) for line in one.used()})
        # a greedy request that many explorations share is still one request each: their seeds differ
        assert broken.delivered == paid == one.spend.answered
        again = endpoint(broken.url, explorer_server[1], tmp_path / "log.jsonl", **careful)
        sent = len(broken.bodies)
        assert explored(again, asked) == whole
        assert len(broken.bodies) == sent


def test_task_too_long_for_the_model_is_left_out(weak: Weak, explorer_server: Server, tmp_path: Path) -> None:
    words = json.dumps(
        {"message": "This model's maximum context length is 512 tokens, your request has 900 input tokens"}
    )
    asked, counts = wanted(weak, 3, "random"), Counter[str]()
    with proxy(explorer_server[0], script=[(400, {}, words)]) as server:
        found = explored(endpoint(server.url, explorer_server[1], tmp_path / "log", concurrency=1), asked, counts)
    assert len(found) == 2 and counts["unanswered"] == 1
