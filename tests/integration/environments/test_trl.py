"""Our environments for TRL's `environment_factory`: methods from schemas, later user turns by a tool, our reward."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks, write_jsonl
from coevolve.core.task import Observation, ToolCall
from coevolve.environments.environment import EnvironmentFailed
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.environments.registry import make
from coevolve.environments.trl import dataset_rows, environment_factory
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests import ROOT
from tests.integration.environments.test_served_tasks import GROWN
from tests.unit.core.test_calls import nested
from tests.waiting import PATIENCE

POLICY = ROOT / "policies/base"
NAMES = ["miniworld", "sql", *(["bfcl"] if find_spec("bfcl_eval") else [])]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_played_by_methods_earns_the_reward(name: str) -> None:
    world = make(name)
    instance = environment_factory(name)()
    for task in world.tasks("seed")[:16]:
        instance.reset(task_id=task.task_id, prompt="whatever a row holds besides")
        assert instance.get_reward() < 0.5
        for number, turn in enumerate(world.reference(task)):
            if number:
                assert instance.next_request() == task.turns[number]
            for call in turn:
                assert isinstance(getattr(instance, call.name)(**call.arguments), str)
        assert instance.get_reward() == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_transformers_reads_the_same_schemas_back(name: str) -> None:
    from transformers.utils import get_json_schema

    cls, world = environment_factory(name), make(name)
    for schema in world.open().reset(world.tasks("seed")[0]).tools or []:
        function = schema["function"]
        parameters = get_json_schema(getattr(cls, function["name"]))["function"]["parameters"]
        assert set(parameters["properties"]) == set(function["parameters"].get("properties", {}))
        assert set(parameters.get("required", [])) == set(function["parameters"].get("required", []))


@pytest.mark.skipif("bfcl" not in NAMES, reason="bfcl is not installed")
def test_names_that_cannot_be_methods_are_an_error() -> None:
    with pytest.raises(CoevolveError, match="not a Python name"):
        environment_factory("bfcl_single")


@pytest.mark.parametrize("error", [RecursionError("too deep"), EnvironmentFailed("gone")])
def test_what_a_call_breaks_scores_0_and_stops_no_trainer(error: Exception) -> None:
    class Breaks(MiniworldSession):
        def step(self, call: ToolCall) -> Observation:
            if call.name == "balance":
                raise error
            return super().step(call)

    class World(Miniworld):
        def open(self) -> MiniworldSession:
            return Breaks()

    world = World()
    instance, task = environment_factory(world)(), world.tasks("seed")[0]
    for broken in (False, True, False):
        instance.reset(task_id=task.task_id)
        assert not broken or instance.balance() == "error: the episode is broken"
        for call in world.reference(task)[0]:
            getattr(instance, call.name)(**call.arguments)
        assert instance.get_reward() == (0.0 if broken else 1.0)
    instance.reset(task_id=task.task_id)
    assert "nested" in instance.find_contact(name=nested(990))


def test_rows_name_the_tasks() -> None:
    rows = dataset_rows("miniworld", "test")
    assert rows[0]["task_id"] == make("miniworld").tasks("test")[0].task_id
    assert rows[0]["prompt"][0]["role"] == "user"


def test_accepted_tasks_are_trained_on_as_a_file_or_in_memory(tmp_path: Path) -> None:
    tasks = list(make("miniworld").tasks("test")[:2])
    write_jsonl(tmp_path / "accepted.jsonl", tasks)
    rows = dataset_rows("miniworld", tasks=tmp_path / "accepted.jsonl")
    assert [row["task_id"] for row in rows] == [task.task_id for task in tasks]
    assert rows == dataset_rows("miniworld", tasks=tasks)
    instance = environment_factory("miniworld", tasks=tasks)()
    instance.reset(task_id=tasks[1].task_id)
    for call in tasks[1].calls:
        getattr(instance, call.name)(**call.arguments)
    assert instance.get_reward() == 1.0
    with pytest.raises(CoevolveError, match="belongs to environment 'miniworld', expected 'sql'"):
        dataset_rows("sql", tasks=tmp_path / "accepted.jsonl")


@pytest.mark.parametrize("name", ["miniworld", "sql"])
def test_new_tasks_score_as_in_our_own_loop(name: str, tmp_path: Path) -> None:
    """An agent that leaves calls out, in ten synthesized tasks of miniworld and ten tasks of SQL."""
    world = make(name)
    tasks = read_tasks(GROWN) if name == "miniworld" else list(world.tasks("validation")[:10])
    write_jsonl(tmp_path / "new.jsonl", tasks)
    agent = ReferencePolicy(world, 0.4)
    requests = [RolloutRequest(task, seed) for seed, task in enumerate(tasks)]
    ours = [one.trajectory.score for one in rollout(agent, world, requests, Limits(16, 10**6, 64, PATIENCE))]
    instance = environment_factory(name, tasks=tmp_path / "new.jsonl")()
    theirs = []
    for seed, row in enumerate(dataset_rows(name, tasks=tmp_path / "new.jsonl")):
        instance.reset(**row)
        for call in agent.planned(Conversation(0, [], [], tasks[seed], seed, 1, 1))[0]:
            getattr(instance, call.name)(**call.arguments)
        theirs.append(instance.get_reward())
    assert theirs == ours and len(set(ours)) > 1 and 1.0 in ours


def test_a_refused_call_is_known_by_its_first_word() -> None:
    """Readers of rollouts tell by it that the environment did not accept the call."""
    instance, task = environment_factory("miniworld")(), make("miniworld").tasks("seed")[0]
    instance.reset(task_id=task.task_id)
    assert instance.find_contact(name=5).startswith("error: ")


def test_canary_trl_trains_with_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TRL_EXPERIMENTAL_SILENCE", "1")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from coevolve.policies.agent_prompt import RESPONSE_TEMPLATE
    from coevolve.policies.transformers_policy import load

    model, tokenizer = load(POLICY)
    tokenizer.response_template = RESPONSE_TEMPLATE
    rewards: list[Any] = []
    cls = environment_factory("miniworld", tasks=GROWN)
    inner = cls.get_reward  # type: ignore[attr-defined]
    monkeypatch.setattr(cls, "get_reward", lambda self: rewards.append(inner(self)) or rewards[-1])
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=256,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
        ),
        train_dataset=Dataset.from_list(dataset_rows("miniworld", tasks=GROWN)[:8]),
        processing_class=tokenizer,
        environment_factory=cls,
    )
    trainer.train()
    assert len(rewards) == 8
    assert all(0 <= reward <= 1 for reward in rewards)
    assert len(set(rewards)) > 1
