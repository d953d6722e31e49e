"""GRPO by TRL's ``GRPOTrainer``, over episodes that our own rollout loop plays.

Group-relative advantages, clipped ratios and the KL divergence to the reference policy are TRL's (DeepSeekMath, arXiv
2402.03300; clip-higher of DAPO, arXiv 2503.14476). What it lacks is here: groups that teach nothing are dropped before
the forward pass and replaced, every trajectory is kept, and a killed run goes on as if it had never stopped.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from coevolve import curriculum
from coevolve.environments.base import Environment
from coevolve.files import read_json, read_trajectories, write_json, write_jsonl, write_trajectories
from coevolve.params import Train
from coevolve.policies.transformers import TransformersPolicy, load
from coevolve.records import Task, Trajectory
from coevolve.rollout import Assignment, Episode, Limits, judged, play
from coevolve.seeding import derive_seed
from coevolve.training.groups import Gathered, Group, gather, rewards
from coevolve.training.progress import ProgressBar

COMPLETE = "complete"  # the mark of a checkpoint that was written to its end
BUCKETS = 6  # into which a batch is divided by length
Log = Callable[[int, dict[str, float]], None]


@dataclass(frozen=True)
class Job:
    """What to train: ``iteration`` starts from the model directory ``parent`` and writes ``policy`` and the files.

    ``scratch`` is a folder of this very job (its name holds a fingerprint of all inputs): checkpoints go there.
    """

    iteration: int
    seed: int
    parent: Path
    tasks: Sequence[Task]
    policy: Path
    trajectories: Path
    metrics: Path
    scratch: Path


def train(
    knobs: Train, limits: Limits, environment: Environment, job: Job, threads: int = 1, log: Log | None = None
) -> None:
    """Run or resume ``job``; ``log`` gets every step's metrics as soon as they are known."""
    model, tokenizer = load(job.parent, threads)
    resume = _last_checkpoint(job.scratch)
    steps = _Steps(job.scratch / "steps", int(resume.name.split("-")[1]) if resume else 0)
    trainer = _LoopTrainer(
        knobs,
        limits,
        environment,
        job,
        steps,
        model=model,
        args=_arguments(knobs, job),
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "-"}]}] * knobs.tasks_per_step),
        peft_config=_lora(knobs),
        callbacks=[ProgressBar(f"train {job.iteration}"), _Keeper(steps, log)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    _save(trainer, tokenizer, job)
    write_trajectories(job.trajectories, steps.trajectories(knobs.steps))
    write_jsonl(job.metrics, steps.metrics(knobs.steps))
    shutil.rmtree(job.scratch)


class _LoopTrainer(GRPOTrainer):  # type: ignore[misc]
    """``GRPOTrainer`` whose batch is what ``gather`` kept: as many groups as there are, not as many as were asked."""

    def __init__(
        self, knobs: Train, limits: Limits, environment: Environment, job: Job, steps: "_Steps", **arguments: Any
    ) -> None:
        self._knobs, self._limits, self._environment, self._job, self._steps = knobs, limits, environment, job, steps
        self._kept: list[Group] = []
        super().__init__(reward_funcs=_reward, rollout_func=_rollout, **arguments)
        self._policy = TransformersPolicy(
            self.accelerator.unwrap_model(self.model), self.processing_class, knobs.temperature
        )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        step = self.state.global_step
        torch.manual_seed(derive_seed(self._job.seed, "train", self._job.iteration, step, "batch") % 2**63)
        gathered = self._gather(step)
        self._kept = gathered.kept
        self._steps.keep(step, gathered, self._knobs.tasks_per_step)
        result: dict[str, Any] = super()._generate_and_score_completions(
            inputs[: len(self._kept) * self.num_generations]
        )
        return result

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **arguments: Any
    ) -> tuple[Any, Any, Any]:
        """TRL's, over rows of similar lengths at a time: episodes differ so much that half of a batch is padding.

        Rows × ``logits_to_keep`` log-probabilities and entropies, zero (and masked) behind a row's end.
        """
        prompt = input_ids.shape[1] - logits_to_keep
        before, after = attention_mask[:, :prompt].sum(1), attention_mask[:, prompt:].sum(1)
        order = torch.argsort(before + after, stable=True)
        parts: list[tuple[Any, ...]] = []
        auxiliary = []
        for rows in order.chunk(BUCKETS):
            first, last = prompt - int(before[rows].max()), int(after[rows].max())
            columns = slice(first, prompt + last)
            found = super()._get_per_token_logps_and_entropies(
                model, input_ids[rows, columns], attention_mask[rows, columns], last, **arguments
            )
            missing = (0, logits_to_keep - last)
            parts.append(tuple(None if one is None else torch.nn.functional.pad(one, missing) for one in found[:2]))
            auxiliary.append(found[2])
        back = torch.argsort(order)
        logps, entropies = (
            None if parts[0][place] is None else torch.cat([part[place] for part in parts])[back] for place in (0, 1)
        )
        return logps, entropies, None if auxiliary[0] is None else torch.stack(auxiliary).mean()

    def _gather(self, step: int) -> Gathered:
        knobs, job = self._knobs, self._job

        def play_groups(tasks: Sequence[Task], first: int) -> list[Group]:
            size = knobs.group_size
            assignments = [
                Assignment(task, _seed(job, step, first + row, sample), job.iteration, step, first + row, sample)
                for row, task in enumerate(tasks)
                for sample in range(size)
            ]
            episodes = play(self._policy, self._environment, assignments, self._limits)
            return [episodes[start : start + size] for start in range(0, len(episodes), size)]

        tasks = curriculum.stream(job.tasks, knobs.tasks_per_step, job.seed, job.iteration, step)
        return gather(play_groups, tasks, knobs.tasks_per_step, knobs.refill_rounds)


def _seed(job: Job, step: int, group: int, sample: int) -> int:
    return derive_seed(job.seed, "train", job.iteration, step, group, sample)


def _rollout(prompts: list[Any], trainer: _LoopTrainer) -> dict[str, Any]:
    """TRL's door for episodes: token ids, and a mask that leaves out what the environment wrote."""
    group_rewards = [reward for group in trainer._kept for reward in rewards(group)]
    columns: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "env_mask": [], "logprobs": None}
    for episode in (episode for group in trainer._kept for episode in group):
        prompt, completion, mask = _flat(episode, trainer.processing_class.eos_token_id)
        columns["prompt_ids"].append(prompt)
        columns["completion_ids"].append(completion)
        columns["env_mask"].append(mask)
    return {**columns, "episode_reward": group_rewards}


def _flat(episode: Episode, end: int) -> tuple[list[int], list[int], list[int]]:
    """Prompt, completion and mask of an episode; TRL wants no completion empty, so one that is gets a masked end."""
    replies = episode.replies
    prompt = replies[0].prompt_ids if replies else [end]
    completion: list[int] = []
    mask: list[int] = []
    for number, reply in enumerate(replies):
        if number:
            completion += reply.prompt_ids
            mask += [0] * len(reply.prompt_ids)
        completion += reply.token_ids
        mask += [1] * len(reply.token_ids)
    return (prompt, completion, mask) if completion else (prompt, [end], [0])


def _reward(completions: list[Any], episode_reward: list[float | None], **_: Any) -> list[float | None]:
    return episode_reward


def _arguments(knobs: Train, job: Job) -> Any:
    cuda = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(job.scratch),
        per_device_train_batch_size=knobs.tasks_per_step * knobs.group_size,
        num_generations=knobs.group_size,
        steps_per_generation=1,
        gradient_accumulation_steps=1,
        max_steps=knobs.steps,
        learning_rate=knobs.learning_rate,
        lr_scheduler_type="constant",
        beta=knobs.beta,
        epsilon=knobs.epsilon,
        epsilon_high=knobs.epsilon_high,
        temperature=knobs.temperature,
        max_grad_norm=1.0,
        save_strategy="steps",
        save_steps=knobs.save_steps,
        save_total_limit=2,
        ignore_data_skip=True,
        shuffle_dataset=False,
        logging_steps=1,
        report_to="none",
        use_cpu=not cuda,
        bf16=cuda,
        gradient_checkpointing=cuda,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=derive_seed(job.seed, "train", job.iteration) % 2**31,
    )


def _lora(knobs: Train) -> Any:
    if not knobs.lora.enabled:
        return None
    from peft import LoraConfig

    return LoraConfig(
        task_type="CAUSAL_LM", r=knobs.lora.rank, lora_alpha=knobs.lora.alpha, target_modules="all-linear"
    )


def _save(trainer: Any, tokenizer: Any, job: Job) -> None:
    """The policy as a model directory, adapters merged; a temporary name first, so that it is whole or absent."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    temporary = job.policy.with_name(f".{job.policy.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    shutil.rmtree(job.policy, ignore_errors=True)
    job.policy.parent.mkdir(parents=True, exist_ok=True)
    os.replace(temporary, job.policy)


def _last_checkpoint(folder: Path) -> Path | None:
    found = [mark.parent for mark in folder.glob(f"checkpoint-*/{COMPLETE}")]
    return max(found, key=lambda path: int(path.name.split("-")[1]), default=None)


class _Steps:
    """What each step yields, a file each in the scratch folder; those after the last checkpoint are made again."""

    def __init__(self, folder: Path, done: int) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if not file.stem.isdigit() or int(file.stem) >= done:  # the former: half-written when it was killed
                file.unlink()
        self._figures: dict[int, dict[str, float]] = {}

    def keep(self, step: int, gathered: Gathered, wanted: int) -> None:
        episodes = [episode for group in gathered.played for episode in group]
        write_trajectories(self._folder / f"{step}.parquet", (episode.trajectory for episode in episodes))
        # what the environment broke says nothing about the agent
        scored = [episode.trajectory for episode in judged(episodes)]
        self._figures[step] = {
            "success": sum(one.success for one in scored) / max(len(scored), 1),
            "score": sum(one.score for one in scored) / max(len(scored), 1),
            "groups": float(len(gathered.played)),
            "groups_trained": float(len(gathered.kept)),
            "groups_without_variance": float(gathered.dropped),
            "groups_missing": float(wanted - len(gathered.kept)),
            "turns": sum(len(episode.replies) for episode in episodes) / len(episodes),
            "tokens": float(sum(sum(episode.trajectory.tokens) for episode in episodes)),
        }

    def finish(self, step: int, logs: dict[str, Any]) -> dict[str, float]:
        """Join what training says of ``step`` to its figures, and write both."""
        names = {"loss": "loss", "grad_norm": "grad_norm", "kl": "kl", "entropy": "entropy"}
        figures = {**self._figures.pop(step), **{new: float(logs[old]) for old, new in names.items() if old in logs}}
        write_json(self._folder / f"{step}.json", {"step": step, **figures})
        return figures

    def trajectories(self, count: int) -> list[Trajectory]:
        return [one for step in range(count) for one in read_trajectories(self._folder / f"{step}.parquet")]

    def metrics(self, count: int) -> list[dict[str, float]]:
        return [read_json(self._folder / f"{step}.json") for step in range(count)]


class _Keeper(TrainerCallback):  # type: ignore[misc]
    """Marks checkpoints that are whole, and passes metrics on."""

    def __init__(self, steps: _Steps, log: Log | None) -> None:
        self._steps = steps
        self._log = log

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            step = state.global_step - 1
            figures = self._steps.finish(step, logs)
            if self._log:
                self._log(step, figures)
