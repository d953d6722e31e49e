"""Write trl/: two steps of TRL's GRPOTrainer on miniworld with `log_completions`. `python -m tests.unit.rollouts.made.trl_run`

One run logs the task's id by ``log_extra``, the other does not.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from coevolve.core.io import read_tasks
from coevolve.environments.trl import environment_factory
from coevolve.policies.agent_prompt import RESPONSE_TEMPLATE
from coevolve.policies.transformers_policy import load
from tests import ROOT

HERE = Path(__file__).parent


def note_task(completions: list[Any], task_id: list[str], log_extra: Any, **_: Any) -> list[None]:
    """A reward function that scores nothing: it logs each rollout's task."""
    log_extra("task_id", task_id)
    return [None] * len(completions)


def run(out: Path, with_id: bool) -> None:
    model, tokenizer = load(ROOT / "policies/base")
    tokenizer.response_template = RESPONSE_TEMPLATE
    rows = [
        {"prompt": [{"role": "user", "content": task.turns[0]}], "task_id": task.task_id}
        for task in read_tasks(HERE / "tasks.jsonl")[:2]
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            args=GRPOConfig(
                output_dir=folder,
                max_steps=2,
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=200,
                use_cpu=True,
                bf16=False,
                report_to="none",
                save_strategy="no",
                logging_steps=1,
                log_completions=True,
                num_completions_to_print=0,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            environment_factory=environment_factory("miniworld"),
            reward_funcs=[note_task] if with_id else None,
        )
        trainer.train()
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(Path(folder) / "completions", out)


if __name__ == "__main__":
    run(HERE / "trl", with_id=False)
    run(HERE / "trl_with_id", with_id=True)
