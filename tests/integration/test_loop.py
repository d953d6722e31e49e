"""The data side of the loop without a model: trajectories of an unreliable policy become signals, chains and tasks."""

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from coevolve.core.success import is_success
from coevolve.core.trajectories import write_trajectories
from coevolve.core.workers import Local
from coevolve.environments.knowledge import learn
from coevolve.environments.registry import make
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.table import open_table
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests.unit.stages.train.small import PARAMS

CONFIG = PARAMS.explore.model_copy(update={"explorations": 128, "tries": 12})
SIGNALS = Signals(window=5, rare_threshold=2.0, kinds=["forgetting", "boundary", "rare"])


@pytest.mark.parametrize("name", ["miniworld", *(["bfcl"] if find_spec("bfcl_eval") else [])])
def test_trajectories_become_signals_and_accepted_tasks(name: str, tmp_path: Path) -> None:
    environment = make(name)
    tasks = environment.tasks("seed")[:48]
    trajectories = []
    for step, corruption in enumerate((0.1, 0.1, 0.5)):  # it forgets
        assignments = [
            RolloutRequest(task, 100 * step + sample, step=step, group=group, sample=sample)
            for group, task in enumerate(tasks)
            for sample in range(4)
        ]
        policy = ReferencePolicy(environment, corruption)
        episodes = rollout(policy, environment, assignments, Limits(60, 10**6, 64, 60.0))
        trajectories += [episode.trajectory for episode in episodes]
    write_trajectories(tmp_path / "trajectories.parquet", trajectories)
    with open_table(tmp_path / "trajectories.parquet") as table:
        signals = list(extract(table, 0, SIGNALS))
    assert {signal.kind for signal in signals} == set(SIGNALS.kinds)

    wanted = requests(environment, tasks, trajectories, signals, CONFIG, 0, 0)
    found = explore(
        ScriptedExplorer(environment, learn(environment, tasks, trajectories), CONFIG), wanted, lambda count: None
    )
    assert {one for exploration in found for one in exploration.signal_ids} <= {one.signal_id for one in signals}
    candidates = synthesize(ScriptedSynthesizer(environment, tasks, 0), found, 64, lambda count: None)
    panels = {panel: environment.tasks(panel) for panel in environment.panels}
    judged = verify(name, [json.dumps(asdict(one)) for one in candidates], Library(tasks, panels, 0.9), engine=Local(2))
    accepted = [task for verdict, task in judged if verdict.accepted and task]
    assert len(accepted) >= 30
    assert all(task.provenance and task.provenance.signal_ids for task in accepted)

    # the environment's own checker passes them, and nothing else does
    for corruption, share in ((0.0, 1.0), (1.0, 0.0)):
        episodes = rollout(
            ReferencePolicy(environment, corruption),
            environment,
            [RolloutRequest(replace(task, split="x"), 0) for task in accepted],
            Limits(60, 10**6, 64, 60.0),
        )
        assert sum(is_success(one.trajectory.score) for one in episodes) == share * len(accepted)
