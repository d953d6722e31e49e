"""A small run of GRPO on the committed tiny policy, used by several tests."""

from pathlib import Path

from coevolve.core.launch import Launch
from coevolve.environments.registry import make
from coevolve.stages.schema import load as load_params
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Job, Log, Settings
from tests import POLICY, ROOT
from tests.waiting import PATIENCE

WORLD = make("miniworld")
PARAMS = load_params(ROOT / "params.yaml")
SMALL = {"steps": 3, "tasks_per_step": 4, "group_size": 4, "save_steps": 1, "curriculum": "even", "keep_base": 0.0}
CONFIG = PARAMS.train.model_copy(update=SMALL)
ACTING = PARAMS.policy.model_copy(
    update={"max_turns": 8, "episode_tokens": 256, "reply_tokens": 64, "max_seconds": PATIENCE}
)


def settings(config: Train = CONFIG, launch: Launch = PARAMS.launch, **own: object) -> Settings:
    """With changes of the learner's section."""
    return Settings(config, ACTING, launch, PARAMS.learners[config.learner].model_copy(update=own))


def changed(**updates: object) -> Train:
    """CONFIG with changes. Those of section ``lora`` come as a dictionary."""
    lora = CONFIG.lora.model_copy(update=updates.pop("lora", {}))  # type: ignore[arg-type]
    return CONFIG.model_copy(update={**updates, "lora": lora})


def job(folder: Path) -> Job:
    return Job(
        0, 0, POLICY, WORLD.tasks("seed")[:16], folder / "policy", folder / "trajectories.parquet",
        folder / "metrics.jsonl", folder / "scratch", POLICY,
    )  # fmt: skip


def outputs(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def stop_at(last: int) -> Log:
    """A log of training that interrupts it at a step."""

    def log(step: int, figures: dict[str, float]) -> None:
        if step == last:
            raise KeyboardInterrupt

    return log


def killed(*arguments: object, **more: object) -> None:
    raise KeyboardInterrupt
