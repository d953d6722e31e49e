"""verifiers plays our tasks: a scripted model on a real server, `vf-eval`, our scores, and its traces in `grow`."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.code_closure import SOURCE
from coevolve.core.io import read_tasks
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import cache
from coevolve.environments.registry import make
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.rollouts.foreign_trajectories import FAILED, RolloutAccount, trajectories
from coevolve.rollouts.match_tasks import TaskMatch
from coevolve.rollouts.rollout_formats import read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options
from coevolve.trainers.environment_package import write_package
from tests import ROOT
from tests.integration.trainers.errands import Errands
from tests.integration.trainers.scripted_model import Script, scripted
from tests.integration.trainers.test_served_tasks import GROWN
from tests.waiting import PATIENCE

VENV = cache() / "verifiers/venv"
pytestmark = [
    pytest.mark.skipif(
        not (VENV / ".installed").exists(), reason="run `make scratch/environments/verifiers/venv/.installed`"
    ),
]
NAME = "new-tasks"
LIMITS = Limits(3, 10**6, 64, PATIENCE)
MISSED = 0.4  # how often the agent leaves a call out
# verifiers' chat program asks uv for packages, which this Python has already
UV = f"""#!/bin/sh
case "$*" in
  *--help*) echo --script ;;
  "python find"*) echo {VENV}/bin/python ;;
esac
"""


def world_of(task: Task) -> Environment:
    return Errands() if task.environment == "errands" else make(task.environment)


@dataclass
class Played:
    tasks: list[Task]
    folder: Path
    environment: dict[str, str]

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(VENV / "bin" / program), *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def evaluate(self, *arguments: str) -> list[Trajectory]:
        """The rollouts of `vf-eval`, as `coevolve grow` reads them, in the order of the tasks."""
        with scripted(self.script()) as url:
            client = ("--model", "scripted", "--client.base-url", url, "--client.api-key-var", "SCRIPT")
            self.run("vf-eval", NAME, *client, "--no-push", "--no-rich", "-o", "out", "--run.name", "run", *arguments)
        files = rollout_files(self.folder / "out")
        account = RolloutAccount()
        found = list(trajectories(read_rollouts(files, Options()), TaskMatch(self.tasks), account))
        assert [row["where"] for row in account.skipped] == ["configs/resolved/eval.json"], "verifiers' own settings"
        assert FAILED not in account.notes
        order = [task.task_id for task in self.tasks]
        return sorted(found, key=lambda trajectory: order.index(trajectory.task_id))

    def script(self) -> Script:
        replies = {}
        for seed, task in enumerate(self.tasks):
            turns = ReferencePolicy(world_of(task), MISSED).planned(Conversation(0, [], [], task, seed, 1, 1))
            replies[task.turns[0]] = [calls for turn in turns for calls in (*([call] for call in turn), [])]
        return replies

    def ours(self) -> list[Trajectory]:
        """The same agent in our own loop."""
        return [
            rollout(ReferencePolicy(world, MISSED), world, [RolloutRequest(task, seed)], LIMITS)[0].trajectory
            for seed, task in enumerate(self.tasks)
            for world in [world_of(task)]
        ]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("verifiers")
    tasks = [*read_tasks(GROWN)[-2:], *make("sql").tasks("validation")[:2], *Errands().tasks("seed")]
    write_package(folder / NAME, NAME, "several", tasks, "a card\n")
    (folder / "bin").mkdir()
    (folder / "bin/uv").write_text(UV)
    (folder / "bin/uv").chmod(0o755)
    shutil.copy(ROOT / "tests/integration/trainers/errands.py", folder)
    declared = folder / "errands-1.dist-info"  # as an installed package declares its environment
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: errands\nVersion: 1\n")
    (declared / "entry_points.txt").write_text("[coevolve.environments]\nerrands = errands:Errands\n")
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, folder, folder / NAME))),
        "HOME": str(folder),
        "SCRIPT": "none",
    }
    yield Played(tasks, folder, environment)


def seen(trajectory: Trajectory) -> list[Any]:
    return [[call.name, call.arguments, call.ok, call.observation, call.turn] for call in trajectory.calls]


def test_scores_and_calls_equal_those_of_our_own_loop(played: Played) -> None:
    """Also for episodes that reach the turn limit."""
    theirs, ours = played.evaluate("--env.agent.max-turns", str(LIMITS.max_turns)), played.ours()
    assert [one.score for one in theirs] == [one.score for one in ours]
    assert {one.stop_reason for one in ours} == {StopReason.DONE, StopReason.MAX_TURNS}
    assert len({one.score for one in ours}) > 2
    for their, our in zip(theirs, ours, strict=True):
        replies = [message for message in our.messages if message["role"] == "assistant"]
        # a limit cuts their trace off before the answer to the last call
        cut = len(replies) == LIMITS.max_turns and our.messages[-1] is not replies[-1]
        last = len(our.calls) - cut
        assert (their.task_id, seen(their)[:last]) == (our.task_id, seen(our)[:last])
        assert [call.name for call in their.calls] == [call.name for call in our.calls]
    assert [message["content"] for message in theirs[-1].messages if message["role"] == "user"] == played.tasks[
        -1
    ].turns


def test_validation_replays_our_references(played: Played) -> None:
    played.run("vf-validate", NAME, "--runtime.type", "subprocess", "--no-rich", "-o", "checked")
    (summary,) = (played.folder / "checked").rglob("summary.json")
    checks = json.loads(summary.read_text())["checks"]
    assert checks["gold"]["valid"] == checks["noop"]["valid"] == len(played.tasks)
