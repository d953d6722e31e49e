"""TRL's own GRPOTrainer plays our tasks: in its process by `coevolve.trl_environment`, over HTTP by `OpenRewardSpec`."""

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import coevolve
from coevolve.core.io import read_tasks
from coevolve_environments.openenv.openenv_environment import HOSTED
from tests import POLICY, ROOT
from tests.integration.coevolve_environments.test_openenv import running
from tests.integration.trainers.test_served_tasks import GROWN, SERVE, needs
from tests.waiting import free_port


def trained(folder: Path, **data: Any) -> list[dict[str, Any]]:
    """The rollouts of a step of GRPO with the committed small model, as TRL logs them."""
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_template

    tokenizer = AutoTokenizer.from_pretrained(POLICY)
    tokenizer.response_template = qwen3_template  # this model also writes calls as JSON in <tool_call> tags
    settings = GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to="none",
        max_steps=1,
        num_generations=2,
        per_device_train_batch_size=4,
        max_completion_length=64,
        max_tool_calling_iterations=3,
        log_completions=True,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(model=str(POLICY), processing_class=tokenizer, args=settings, **data)
    trainer.train()
    (log,) = (folder / "completions").glob("*.parquet")
    return pq.read_table(log).to_pylist()  # type: ignore[no-any-return]


def called(rollouts: list[dict[str, Any]]) -> list[str]:
    """The answers to calls of tools that exist."""
    answers = [message["content"] for one in rollouts for message in one["completion"] if message["role"] == "tool"]
    return [answer for answer in answers if "not found" not in answer]


@pytest.mark.parametrize("dataset", [True, False])
def test_trainer_plays_our_tasks_with_our_tools_and_our_reward(dataset: bool, tmp_path: Path) -> None:
    world = coevolve.trl_environment("miniworld", tasks=GROWN, num_generations=2)
    data = {"train_dataset": world.train_dataset()} if dataset else {}
    rollouts = trained(tmp_path, environment_factory=world, **data)
    requests = {task.turns[0] for task in read_tasks(GROWN)}
    prompts = [one["prompt"][-1]["content"] for one in rollouts]
    assert len(prompts) == 4 and set(prompts) <= requests
    assert prompts[0] == prompts[1] != prompts[2] == prompts[3], "the rollouts of a group play one task"
    assert called(rollouts)
    rewards = [one["miniworld"] for one in rollouts]
    assert all(0.0 <= reward <= 1.0 for reward in rewards) and max(rewards) > 0.0


@needs
def test_trainer_plays_our_ors_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's OpenRewardSpec needs openreward, which the virtual environment of the server has."""
    port, log = free_port(), tmp_path / "log"
    command = [*SERVE, "miniworld", "--protocol", "ors", "--tasks", str(GROWN), "--port", str(port)]
    with running(command, port, log):
        url = os.environ["OPENENV_URL"]
        for variable in ("OPENREWARD_API_URL", "OPENREWARD_SESSION_URL"):
            monkeypatch.setenv(variable, url)
        monkeypatch.setenv("OPENREWARD_DISABLE_UPDATE_CHECK", "1")
        monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        (packages,) = HOSTED.venv.glob("lib/python*/site-packages")
        monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
        example: dict[str, Any] = {}
        exec((ROOT / "examples/trl_ors.py").read_text().replace("http://127.0.0.1:8000", url), example)
        spec = example["spec"]
        tasks = read_tasks(GROWN)
        assert spec.train_dataset["id"] == [task.task_id for task in tasks]
        episode: Any = spec.environment_factory()
        for index, task in enumerate(tasks):
            assert episode.reset(task_index=index) == task.turns[0] and episode.reward is None
            for call in task.calls:
                getattr(episode, call.name)(**call.arguments)
            assert episode.reward == 1.0
        episode.reset(task_index=0)
        assert episode.find_contact(name=7).startswith("error: ") and episode.reward < 1.0 and not episode.finished
        assert episode.say("done") and episode.finished
        assert episode.find_contact(name="Ada").startswith("Error: "), "the episode has ended"
        rollouts = trained(tmp_path, **example["data"])
        episode._close()
    assert {one["prompt"][-1]["content"] for one in rollouts} <= {task.turns[0] for task in tasks}
    assert called(rollouts)
    assert log.read_text().count("\n") == 2, "the server logs no more than where it is"
