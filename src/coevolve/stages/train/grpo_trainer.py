"""GRPO by TRL's ``GRPOTrainer``, over episodes that coevolve's rollout loop plays.

The loss is TRL's. This module adds three things: it replaces groups that teach nothing before the forward pass, it stores
every trajectory, and a killed run continues as if it had never stopped.

With several processes, each plays a share of the groups. All receive the kept groups, and each trains on an equal share of
their rows. One process writes the trajectories.
"""

import logging
import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models.utils import unwrap_model_for_generation

from coevolve.core.launch import is_main, wanted
from coevolve.core.learnability import Records, recorded
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Task
from coevolve.core.workers import local
from coevolve.environments.environment import Environment
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy, Replicas
from coevolve.policies.pretrained import resolve
from coevolve.policies.transformers_policy import TransformersPolicy, end_tokens
from coevolve.policies.vllm_policy import VllmPolicy, colocated, engine, engine_arguments, require_vllm, server
from coevolve.rollout import Limits, rollout
from coevolve.stages.train.config import Grpo, Train
from coevolve.stages.train.curriculum import Step, stream
from coevolve.stages.train.groups import (
    Gathered,
    Group,
    attempts,
    check_first,
    columns,
    deal,
    dealt_out,
    gather,
    requests,
)
from coevolve.stages.train.learner import Job, Log, Settings, anchor, doubts
from coevolve.stages.train.parallel_grpo import RowPart, Team, TrainingReplica, make_learner, scored_pass
from coevolve.stages.train.progress_bar import ProgressBar
from coevolve.stages.train.saving import Keeper, Steps, finish, resumed
from coevolve.stages.train.shared_prefix import (
    levels_of,
    prepare_passes,
    present,
    share_prefixes,
    shares,
)
from coevolve.stages.train.trl_arguments import adapters, common, load_parent, weights_dtype

BUCKETS = 6  # parts of a batch, divided by length
SERVER_PATIENCE = 240.0  # seconds to wait for a vLLM server


def train(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    config, acting = settings.train, settings.policy
    arguments = _arguments(settings, job.scratch, derive_seed(job.seed, "train", job.iteration) % 2**31)
    model, tokenizer = load_parent(job.parent, config, acting, anchored=_section(settings).beta > 0)
    prepare_passes(model, config, settings.launch, on_request=True)
    resume, steps = resumed(job.scratch)
    trainer = _LoopTrainer(
        settings,
        environment,
        job,
        steps,
        model=model,
        args=arguments,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "-"}]}] * config.tasks_per_step),
        peft_config=adapters(config.lora, model),
        callbacks=[*([ProgressBar(f"train {job.iteration}")] if is_main() else []), Keeper(steps, log)],
    )
    trainer.remove_callback(PrinterCallback)
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_wanted)
    try:
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        trainer.collect_doubts()
    finally:
        trainer.close()
    finish(trainer, tokenizer, settings, job, steps)


def _section(settings: Settings) -> Grpo:
    assert isinstance(settings.learner, Grpo)
    return settings.learner


def _arguments(settings: Settings, scratch: Path, seed: int) -> Any:
    """TRL's arguments for this process. Create them before the model: they decide how it is sharded."""
    config, grpo = settings.train, _section(settings)
    rows = config.tasks_per_step * config.group_size
    common_arguments = common(config, settings.policy, settings.launch, scratch, seed, grpo.learning_rate, rows)
    return GRPOConfig(
        **common_arguments,
        num_generations=config.group_size,
        steps_per_generation=common_arguments["gradient_accumulation_steps"],
        beta=grpo.beta,
        epsilon=grpo.epsilon,
        epsilon_high=grpo.epsilon_high,
        temperature=config.temperature,
        ignore_data_skip=True,
        shuffle_dataset=False,
        **_vllm(config, settings.policy),
    )


def _vllm(config: Train, acting: PolicySection) -> dict[str, Any]:
    if config.vllm.mode == "off":
        return {}
    require_vllm(f"train.vllm.mode: {config.vllm.mode}")
    return {
        "use_vllm": True,
        "vllm_mode": config.vllm.mode,
        "vllm_gpu_memory_utilization": config.vllm.memory,
        "vllm_max_model_length": acting.episode_tokens,
        "vllm_server_base_url": config.vllm.url if config.vllm.mode == "server" else None,
        "vllm_server_timeout": SERVER_PATIENCE,
    }


class _LoopTrainer(GRPOTrainer):  # type: ignore[misc]
    """``GRPOTrainer`` whose batch holds the groups that ``gather`` kept, which may be fewer than ``tasks_per_step``."""

    def __init__(self, settings: Settings, environment: Environment, job: Job, steps: Steps, **arguments: Any) -> None:
        self._config, self._grpo = settings.train, _section(settings)
        self._limits = Limits.of(settings.policy)
        self._environment = environment
        self._job = job
        self._steps = steps
        self._rows: dict[str, Any] = {}
        self._last_loaded_step = -1  # of the weights outside this process; TRL's attribute, needed before its loop
        self._weights_are_sharded = settings.launch.sharding == "zero3" and self._config.vllm.mode == "off"
        # processes of this machine can share the passes of a step only on a CPU, if training changes all weights
        config = settings.train
        whole = not config.lora.enabled and not config.gradient_checkpointing and config.vllm.mode == "off"
        in_process = whole and not torch.cuda.is_available() and not wanted(settings.launch)
        replicas = _replicas(settings, job) if in_process else None
        # TRL loads the KL anchor from this path
        arguments["model"].config._name_or_path = str(resolve(anchor(settings, job)))
        colocates = self._config.vllm.mode == "colocate"
        with colocated(engine_arguments(resolve(job.parent), settings.policy)) if colocates else nullcontext():
            super().__init__(reward_funcs=_reward, rollout_func=_rollout, **arguments)
        self._may_share = shares(settings.train, settings.launch)
        if self.ref_model is not None and self._may_share:
            share_prefixes(self.accelerator.unwrap_model(self.ref_model), on_request=True)
        self._policy = replicas or self._make_policy(settings.policy)
        self._replicas = replicas
        self._records = self._recorded(steps)
        self._team: Team | None = None
        if in_process:
            model = self.accelerator.unwrap_model(self.model)
            self._parameters = list(model.parameters())
            own_replica = TrainingReplica(model, self.processing_class, 0.0, {}, self.ref_model)
            self._team = Team(own_replica, replicas)

    def collect_doubts(self) -> None:
        """Add to ``doubts`` those of the helper processes."""
        if self._team:
            doubts.extend(sorted(self._team.doubts().difference(doubts)))

    def close(self) -> None:
        """End the helper processes."""
        if self._replicas:
            self._replicas.shutdown()

    def _recorded(self, steps: Steps) -> Records:
        """How often each task was solved so far, steps before a kill included.

        The main process has the files of those steps and broadcasts the records.
        """
        past = attempts(steps.trajectories(steps.done)) if self.accelerator.is_main_process else []
        records = [recorded({}, [*self._job.attempts, *past])]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(records)
        return records[0]

    def _make_policy(self, acting: PolicySection) -> Policy:
        temperature, tokenizer = self._config.temperature, self.processing_class
        model = self.accelerator.unwrap_model(self.model)
        if not self.use_vllm:
            return TransformersPolicy(model, tokenizer, temperature, acting.template)
        if self.vllm_mode == "colocate":
            complete = engine(self.vllm_generation.llm, temperature)
        else:
            from trl.generation.vllm_client import VLLMClient

            # one of TRL's processes updates the server's weights; every process sends its own requests
            complete = server(VLLMClient(base_url=self._config.vllm.url), temperature)
        ends = end_tokens(model.generation_config, tokenizer)
        return VllmPolicy(complete, tokenizer, ends, acting.episode_tokens, acting.template)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's method, which deals the rows of a step to its passes at random. Here attempts at one task stay in one pass,
        which computes their prompt once. The gradient is a sum over all passes either way.
        """
        if self.args.steps_per_generation == 1:
            return super()._prepare_inputs(generation_batch)
        with patch("trl.trainer.grpo_trainer.shuffle_sequence_dict", lambda rows: rows):
            return super()._prepare_inputs(generation_batch)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        step = self.state.global_step
        torch.manual_seed(derive_seed(self._job.seed, "train", self._job.iteration, step, "batch") % 2**63)
        if self.use_vllm and step != self._last_loaded_step:
            self.vllm_generation.sync_weights()
            self._last_loaded_step = step
        if self._team and self._replicas and step != self._last_loaded_step:
            self._team.send_weights(self._parameters)
            self._last_loaded_step = step
        with self._whole_model():
            gathered = self._play_step(step)
        if step == 0:
            check_first(gathered, str(self._job.parent))
        if self.accelerator.is_main_process:
            self._steps.keep(step, gathered, self._config.tasks_per_step)
        rows = deal(
            gathered.kept,
            self.accelerator.process_index,
            self.accelerator.num_processes,
            self.args.steps_per_generation,
            self.args.per_device_train_batch_size,
            self.processing_class.eos_token_id,
        )
        self._rows = columns(rows, logprobs=self.use_vllm)
        result: dict[str, Any] = super()._generate_and_score_completions([dict(inputs[0]) for _ in rows])
        return result

    def _whole_model(self) -> AbstractContextManager[Any]:
        """Gather sharded parameters in every process while episodes are sampled."""
        if not self._weights_are_sharded:
            return nullcontext()
        whole: AbstractContextManager[Any] = unwrap_model_for_generation(self.model_wrapped, self.accelerator)
        return whole

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **arguments: Any
    ) -> tuple[Any, Any, Any]:
        """TRL's method over parts of similar lengths: otherwise half of a batch would be padding.

        Log-probabilities and entropies are rows × ``logits_to_keep``, zero and masked after a row's end.
        """
        prompt = input_ids.shape[1] - logits_to_keep
        before, after = attention_mask[:, :prompt].sum(1), attention_mask[:, prompt:].sum(1)
        prompts = present(input_ids[:, :prompt], attention_mask[:, :prompt]) if self._may_share else []
        sharing = bool(prompts) and len(levels_of(prompts)) > 1
        order = _order(prompts, before + after, sharing)
        # every process makes equally many passes: with sharded parameters all processes meet in each pass
        # (the anchor's pass gets all rows of a step at once)
        chunks = order.chunk(math.ceil(len(order) / self._config.micro_batch) if self._config.micro_batch else BUCKETS)
        spans = [(prompt - int(before[rows].max()), int(after[rows].max())) for rows in chunks]
        parts = [
            (input_ids[rows, first : prompt + last], attention_mask[rows, first : prompt + last], last)
            for rows, (first, last) in zip(chunks, spans, strict=True)
        ]
        results: list[tuple[Any, ...]]
        if self._team:
            seed = derive_seed(self._job.seed, "train", self._job.iteration, self.state.global_step, -1, -1)
            row_parts = [RowPart(*part, seed, sharing) for part in parts]
            pairs = self._team.log_probabilities(row_parts, self._parameters, model is self.ref_model)
            results = [(*pair, None) for pair in pairs]
        else:
            results = [self._scored(model, *part, sharing, **arguments) for part in parts]
        auxiliary = [result[2] for result in results]
        back = torch.argsort(order)

        def joined(values: list[Any]) -> Any:
            if values[0] is None:
                return None
            pad = torch.nn.functional.pad
            padded = [pad(part, (0, logits_to_keep - last)) for part, (_, last) in zip(values, spans, strict=True)]
            return torch.cat(padded)[back]

        logps, entropies = (joined([result[index] for result in results]) for index in (0, 1))
        return logps, entropies, None if auxiliary[0] is None else torch.stack(auxiliary).mean()

    def _scored(
        self, model: Any, ids: Any, mask: Any, scored: int, sharing: bool, **arguments: Any
    ) -> tuple[Any, Any, Any]:
        if not sharing or arguments.get("compute_aux_loss"):
            return super()._get_per_token_logps_and_entropies(model, ids, mask, scored, **arguments)  # type: ignore[no-any-return]
        with self.accelerator.autocast():
            output = scored_pass(model, ids, mask, scored, shares=True)
        return output.log_probs, output.entropy if arguments.get("compute_entropy") else None, None

    def _play_step(self, step: int) -> Gathered:
        config, job = self._config, self._job

        def play_groups(numbered: Sequence[tuple[int, Task]]) -> list[Group]:
            size = config.group_size
            planned = requests(numbered, size, job.seed, job.iteration, step)
            episodes = rollout(self._policy, self._environment, planned, self._limits)
            return [episodes[start : start + size] for start in range(0, len(episodes), size)]

        play_all = dealt_out(play_groups, self.accelerator.process_index, self.accelerator.num_processes)
        now = Step(job.seed, job.iteration, step, config.tasks_per_step)
        tasks = iter(stream(job.tasks, self._records, config, now))
        gathered = gather(play_all, tasks, config.tasks_per_step, self._grpo.refill_rounds)
        played = [episode.trajectory for group in gathered.played for episode in group]
        self._records = recorded(self._records, attempts(played))
        return gathered


def _order(prompts: Sequence[Sequence[int]], lengths: Any, sharing: bool) -> Any:
    """Rows by length; if they share prefixes, attempts at one task stay together, and tasks are in order of length."""
    by_length = torch.argsort(lengths, stable=True)
    if not sharing:
        return by_length
    tasks: dict[tuple[int, ...], list[int]] = {}
    for row in by_length.tolist():
        tasks.setdefault(tuple(prompts[row]), []).append(row)
    longest = sorted(tasks.values(), key=lambda rows: int(lengths[rows[-1]]))
    return torch.tensor([row for rows in longest for row in rows], device=lengths.device)


def _replicas(settings: Settings, job: Job) -> Replicas | None:
    processes = local()
    acting = settings.policy
    dtype = weights_dtype(settings.train, acting)
    anchor_path = anchor(settings, job) if _section(settings).beta > 0 else None
    sharing = shares(settings.train, settings.launch)
    arguments = (job.parent, acting.threads, settings.train.temperature, acting.template, dtype, anchor_path, sharing)
    return Replicas(processes, make_learner, *arguments) if processes else None


def _rollout(prompts: list[Any], trainer: _LoopTrainer) -> dict[str, Any]:
    """TRL's hook for episodes: token ids, and a mask over the tokens that the agent wrote."""
    return trainer._rows


def _reward(completions: list[Any], episode_reward: list[float | None], **_: Any) -> list[float | None]:
    """TRL's hook for rewards. A row without an episode, in place of a dropped attempt, has None."""
    return episode_reward


def _wanted(record: logging.LogRecord) -> bool:
    """Whether to show TRL's ``record``: not its warnings of rows without an episode, which replace dropped attempts."""
    return "All reward functions returned None" not in record.getMessage()
