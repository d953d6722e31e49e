"""Replay: policies/0 plays a split, its successes are cloned, and a killed run clones the same ones."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.replay.stage import tasks_of
from coevolve.stages.train import grpo
from coevolve.stages.train.cloned_episodes import as_tokens
from coevolve.stages.train.config import ReplayedSplit
from coevolve.stages.train.learner import Job
from tests import POLICY
from tests.unit.stages.train.small import ACTING, WORLD, changed, job, outputs, settings, stop_at

SHARE = ReplayedSplit(share=0.5, split="broad")


@pytest.fixture(scope="module")
def kept() -> list[Trajectory]:
    """Some episodes with a tool that no training task needs."""
    model, tokenizer = load(POLICY)
    needed = {call.name for task in WORLD.tasks("seed") for call in task.calls}
    tasks = [task for task in tasks_of(WORLD, "broad")[:64] if {call.name for call in task.calls} - needed]
    requests = [RolloutRequest(task, 0) for task in tasks]
    played = rollout(TransformersPolicy(model, tokenizer, 0.0, {}), WORLD, requests, Limits.of(ACTING))
    episodes = [one.trajectory for one in played if is_success(one.trajectory.score)]
    assert 0 < len(episodes) < len(tasks)
    return episodes


def likelihood(policy: Path, episodes: list[Trajectory]) -> float:
    """The mean log-probability of the agent's tokens, in nats."""
    model, tokenizer = load(policy)
    found = []
    for one in as_tokens(WORLD, episodes, Renderer(tokenizer, {}), ACTING.episode_tokens):
        ids = torch.tensor([one.prompt + one.completion])
        with torch.no_grad():
            scores = model(input_ids=ids).logits[0, len(one.prompt) - 1 : -1].log_softmax(-1)
        chosen = scores.gather(1, ids[0, len(one.prompt) :, None])[:, 0]
        found += chosen[torch.tensor(one.mask) > 0].tolist()
    return sum(found) / len(found)


def trained(folder: Path, episodes: list[Trajectory]) -> Job:
    return replace(job(folder), replay=episodes)


def test_cloned_episodes_become_likelier(kept: list[Trajectory], tmp_path: Path) -> None:
    steps = settings(changed(replay=SHARE), beta=0.0)
    grpo.learn(steps, WORLD, trained(tmp_path / "with", kept))
    grpo.learn(steps, WORLD, trained(tmp_path / "without", []))
    start, without, cloned = (
        likelihood(policy, kept) for policy in (POLICY, tmp_path / "without/policy", tmp_path / "with/policy")
    )
    assert max(start, without) < cloned < 0.0


def test_interrupted_run_clones_the_same_episodes(kept: list[Trajectory], tmp_path: Path) -> None:
    steps = settings(changed(replay=SHARE))
    grpo.learn(steps, WORLD, trained(tmp_path / "whole", kept))
    with pytest.raises(KeyboardInterrupt):
        grpo.learn(steps, WORLD, trained(tmp_path / "again", kept), stop_at(1))
    grpo.learn(steps, WORLD, trained(tmp_path / "again", kept))
    assert outputs(tmp_path / "again") == outputs(tmp_path / "whole")
