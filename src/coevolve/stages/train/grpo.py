"""GRPO: the learner of `train.learner: grpo`, by TRL's ``GRPOTrainer`` over episodes that coevolve's rollout loop plays.

Each step plays groups of attempts at tasks (``_LoopTrainer``), keeps the groups that teach (``gather``), and gives TRL their
tokens (``deal``) and the parameters (``_arguments``). The loss is TRL's: the clipped policy gradient with advantages relative to
a task's group, plus a KL term (DeepSeekMath, arXiv 2402.03300), with another upper clip range and a mean over all tokens of the
step (DAPO, arXiv 2503.14476). For the token t of attempt i, of reward r_i, with ρ_t the ratio of its probability to that at
sampling:

    A_i = (r_i - mean(r)) / std(r)
    L = -mean_t min(ρ_t A_i, clip(ρ_t, 1 - epsilon, 1 + epsilon_high) A_i) + beta KL(π, π_anchor)

The KL divergence is in nats per token, estimated as π_anchor/π - log(π_anchor/π) - 1 (http://joschu.net/blog/kl-approx.html).

Every trajectory is stored, and a killed run continues as if it had never stopped. With several processes, each plays a share of
the groups. All receive the kept groups, and each trains on an equal share of their rows. One process writes the trajectories.

Two tricks for speed stand in files of their own: shared_prefix.py (`prepare_passes`) and parallel_grpo.py (`team`).
"""

import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.utils import split_tensor_dict

from coevolve.core.errors import CoevolveError
from coevolve.core.launch import is_main
from coevolve.core.learnability import Records, recorded
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy, Replicas
from coevolve.policies.pretrained import resolve
from coevolve.policies.transformers_policy import TransformersPolicy, end_tokens
from coevolve.policies.vllm_policy import VllmPolicy, colocated, engine, engine_arguments, require_vllm, server
from coevolve.rollout import Episode, Limits, rollout
from coevolve.stages.train.cloned_episodes import as_tokens, clone
from coevolve.stages.train.config import Grpo, Train
from coevolve.stages.train.curriculum import Step, stream
from coevolve.stages.train.groups import Gathered, Group, attempts, requests, rewards, teaches
from coevolve.stages.train.learner import Job, Log, Settings, anchor
from coevolve.stages.train.parallel_grpo import Parts, RowPart, Scores, Team, TrainingReplica, scored_pass, team
from coevolve.stages.train.progress_bar import ProgressBar
from coevolve.stages.train.saving import Keeper, Steps, finish, resumed
from coevolve.stages.train.shared_prefix import prepare_passes
from coevolve.stages.train.trl_arguments import adapters, common, load_parent

PARTS = 6  # of a batch, divided by length
SERVER_PATIENCE = 240.0  # seconds to wait for a vLLM server


def learn(settings: Settings, environment: Environment, job: Job, log: Log | None = None) -> None:
    """See ``coevolve.stages.train.learner.Learner``."""
    config, grpo = settings.train, _section(settings)
    arguments = _arguments(settings, job.scratch, derive_seed(job.seed, "train", job.iteration) % 2**31)
    model, tokenizer = load_parent(job.parent, config, settings.policy, anchored=grpo.beta > 0)
    resume, steps = resumed(job.scratch)
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_wanted)
    with team(settings, job, anchored=grpo.beta > 0) as helpers:
        trainer = _LoopTrainer(
            settings,
            environment,
            job,
            steps,
            helpers,
            model=model,
            args=arguments,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "-"}]}] * config.tasks_per_step),
            peft_config=adapters(config.lora, model),
            callbacks=[*([ProgressBar(f"train {job.iteration}")] if is_main() else []), Keeper(steps, log)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    finish(trainer, tokenizer, settings, job, steps)


def _section(settings: Settings) -> Grpo:
    assert isinstance(settings.learner, Grpo)
    return settings.learner


class _LoopTrainer(GRPOTrainer):  # type: ignore[misc]
    """``GRPOTrainer`` whose batch holds the groups that ``gather`` kept, which may be fewer than ``tasks_per_step``.

    The processes of ``helpers``, if there are any, share the episodes and the passes of a step.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        job: Job,
        steps: Steps,
        helpers: Team | None,
        **arguments: Any,
    ) -> None:
        self._settings, self._config = settings, settings.train
        self._environment = environment
        self._job = job
        self._steps = steps
        self._team = helpers
        self._rows: dict[str, Any] = {}
        # TRL loads the KL anchor from this path
        arguments["model"].config._name_or_path = str(resolve(anchor(settings, job)))
        colocates = self._config.vllm.mode == "colocate"
        with colocated(engine_arguments(resolve(job.parent), settings.policy)) if colocates else nullcontext():
            super().__init__(reward_funcs=_reward, rollout_func=_rollout, **arguments)
        anchor_model = self.ref_model and self.accelerator.unwrap_model(self.ref_model)
        launch = settings.launch
        self._sharing = prepare_passes(arguments["model"], anchor_model, self._config, launch, on_request=True)
        self._policy = self._make_policy(settings.policy)
        self._records = self._recorded()
        self._replay: list[Row] = []
        if job.replay:
            renderer, room = Renderer(self.processing_class, settings.policy.template), settings.policy.episode_tokens
            episodes = as_tokens(environment, job.replay, renderer, room)
            self._replay = [
                Row(one.prompt, one.completion, one.mask, [0.0] * len(one.mask), None, True) for one in episodes
            ]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's method: play a step, and have TRL score this process's rows as if it had generated them."""
        step, job = self.state.global_step, self._job
        torch.manual_seed(derive_seed(job.seed, "train", job.iteration, step, "batch") % 2**63)
        self._send_weights(step)
        sharded = self._settings.launch.sharding == "zero3" and not self.use_vllm
        # sharded parameters are gathered in every process while it samples
        with unwrap_model_for_generation(self.model_wrapped, self.accelerator) if sharded else nullcontext():
            gathered = self._play(step)
        if step == 0:
            check_first(gathered, str(job.parent))
        if self.accelerator.is_main_process:
            self._steps.keep(step, gathered, self._wanted)
        rows = deal(
            [*attempted(gathered.kept, self.processing_class.eos_token_id), *self._replayed(step)],
            self._config.group_size,
            self.accelerator.process_index,
            self.accelerator.num_processes,
            self.args.steps_per_generation,
            self.args.per_device_train_batch_size,
            self.processing_class.eos_token_id,
        )
        self._rows = columns(rows, logprobs=self.use_vllm)
        result: dict[str, Any] = super()._generate_and_score_completions([dict(inputs[0]) for _ in rows])
        clone(result, (place for place, row in enumerate(rows) if row.cloned))
        return result

    @property
    def _wanted(self) -> int:
        """The groups of a step that hold attempts."""
        return self._config.tasks_per_step - (self._config.replay_groups if self._replay else 0)

    def _replayed(self, step: int) -> list["Row"]:
        """The episodes that a step clones, in place of the groups that `train.replay.share` takes."""
        count = self._config.replay_groups * self._config.group_size
        rng = rng_for("cloned", self._job.seed, self._job.iteration, step)
        return rng.sample(self._replay, min(count, len(self._replay)))

    def _play(self, step: int) -> Gathered:
        """Play the tasks of a step, in the order of the curriculum, and more tasks for groups that teach nothing."""
        config, job = self._config, self._job
        rank, world, size = self.accelerator.process_index, self.accelerator.num_processes, config.group_size
        limits = Limits.of(self._settings.policy)

        def play(tasks: Sequence[Task], first: int) -> list[Group]:
            """All groups, of which this process plays a share. A group's number decides its seeds: no process does."""
            share = list(enumerate(tasks, first))[rank::world]
            planned = requests(share, size, job.seed, job.iteration, step)
            episodes = rollout(self._policy, self._environment, planned, limits)
            groups = [(number, episodes[place * size :][:size]) for place, (number, _) in enumerate(share)]
            if world > 1:
                groups = sorted(gather_object(groups), key=lambda pair: pair[0])
            return [group for _, group in groups]

        tasks = stream(job.tasks, self._records, config, Step(job.seed, job.iteration, step, self._wanted))
        gathered = gather(play, iter(tasks), self._wanted, _section(self._settings).refill_rounds)
        played = [episode.trajectory for group in gathered.played for episode in group]
        self._records = recorded(self._records, attempts(played))
        return gathered

    def _recorded(self) -> Records:
        """How often each task was solved so far, steps before a kill included.

        The main process has the files of those steps and broadcasts the records.
        """
        past = attempts(self._steps.trajectories(self._steps.done)) if self.accelerator.is_main_process else []
        records = [recorded({}, [*self._job.attempts, *past])]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(records)
        return records[0]

    def _make_policy(self, acting: PolicySection) -> Policy | Replicas:
        """The policy that plays: the processes of the team, vLLM, or the model in training."""
        temperature, tokenizer = self._config.temperature, self.processing_class
        model = self.accelerator.unwrap_model(self.model)
        if self._team:
            own = TrainingReplica(model, tokenizer, temperature, acting.template, self.ref_model)
            return self._team.lead(own)
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

    def _send_weights(self, step: int) -> None:
        """Load the weights in training wherever else the policy plays."""
        if self._team:
            self._team.send_weights()
        if self.use_vllm:
            self.vllm_generation.sync_weights()
            self._last_loaded_step = step  # or TRL would send them once more

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's method, which deals the rows of a step to its passes at random. Here attempts at one task stay in one pass,
        which computes their prompt once. The gradient is a sum over all passes either way.
        """
        passes = self.args.steps_per_generation
        if passes == 1:
            return super()._prepare_inputs(generation_batch)
        if self._step % passes == 0:
            self._batches = split_tensor_dict(self._generate_and_score_completions(generation_batch), passes)
        return self._batches[self._step % passes]

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **arguments: Any
    ) -> Scores:
        """TRL's method over parts of similar lengths, which the processes of the team share.

        Log-probabilities and entropies are rows × ``logits_to_keep``, zero and masked after a row's end.
        """
        size, job = self._config.micro_batch, self._job
        # every process makes equally many passes: with sharded parameters all processes meet in each pass
        # (the anchor's pass gets all rows of a step at once)
        count = math.ceil(len(input_ids) / size) if size else PARTS
        seed = derive_seed(job.seed, "train", job.iteration, self.state.global_step, -1, -1)
        batch = Parts(input_ids, attention_mask, logits_to_keep, count, seed, self._sharing)
        if self._team:
            return batch.joined(self._team.scores(batch.parts, model is self.ref_model))
        return batch.joined([self._scored(model, part, **arguments) for part in batch.parts])

    def _scored(self, model: Any, part: RowPart, **arguments: Any) -> Scores:
        if not part.shares or arguments.get("compute_aux_loss"):
            inputs = (part.ids, part.mask, part.scored)
            return super()._get_per_token_logps_and_entropies(model, *inputs, **arguments)  # type: ignore[no-any-return]
        with self.accelerator.autocast():
            logps, entropies = scored_pass(model, part)
        return logps, entropies if arguments.get("compute_entropy") else None, None


def gather(
    play: Callable[[Sequence[Task], int], list[Group]],
    tasks: Iterator[Task],
    wanted: int,
    refills: int,
) -> Gathered:
    """Play ``wanted`` groups, then replace those that teach nothing, in up to ``refills`` rounds.

    ``play`` takes tasks and the number of the first group. If the replacements teach nothing either, fewer than ``wanted``
    groups are kept. At least one group is kept, so that there is always a step to take.
    """
    played = play(list(islice(tasks, wanted)), 0)
    kept = [group for group in played if teaches(group)]
    for _ in range(refills):
        more = list(islice(tasks, max(wanted - len(kept), 0)))
        if not more:
            break
        fresh = play(more, len(played))
        played = [*played, *fresh]
        kept.extend(group for group in fresh if teaches(group))
    return Gathered(kept[:wanted] or played[:1], played)


def check_first(gathered: Gathered, policy: str) -> None:
    """Say so if the first step teaches nothing. If ``policy`` makes no call at all, raise a CoevolveError."""
    if gathered.dropped < len(gathered.played):
        return
    played = [episode.trajectory for group in gathered.played for episode in group]
    if not any(trajectory.calls for trajectory in played):
        raise CoevolveError(
            f"{policy} made no call in its first {len(played)} episodes, and a policy that never acts learns nothing from rewards; "
            "give it a warm start: set warm.steps in params.yaml, for example to 50 (docs/my-model.md)"
        )
    solved = sum(is_success(trajectory.score) for trajectory in played)
    remedy = "harder tasks or a shorter warm start" if solved else "easier tasks or a longer warm start"
    print(
        f"{policy} solved {solved} of its first {len(played)} episodes, and no group of attempts differs in its rewards, so "
        f"this step teaches nothing; if the next steps look the same, use {remedy}"
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A row of TRL's batch.

    ``mask`` is 1 where the policy wrote and 0 where the environment did. ``logprobs`` are those of sampling, 0 where the
    environment wrote. A row whose reward is None does not enter its group's advantages.
    """

    prompt: list[int]
    completion: list[int]
    mask: list[int]
    logprobs: list[float]
    reward: float | None
    cloned: bool = False


def row(episode: Episode, reward: float | None, end: int) -> Row:
    """An episode as a row, up to the agent's last token: an observation that left no room for a reply may have any length.

    TRL accepts no empty completion, so an empty one becomes a masked ``end`` token.
    """
    replies = episode.replies
    prompt = replies[0].prompt_ids if replies else [end]
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for number, reply in enumerate(replies):
        observed = reply.prompt_ids if number and reply.token_ids else []
        completion += observed + reply.token_ids
        mask += [0] * len(observed) + [1] * len(reply.token_ids)
        logprobs += [0.0] * len(observed) + reply.logprobs
    return Row(prompt, completion, mask, logprobs, reward) if completion else Row(prompt, [end], [0], [0.0], reward)


def attempted(groups: Iterable[Group], end: int) -> list[Row]:
    """The rows of ``groups``, in order."""
    return [
        row(episode, reward, end) for group in groups for episode, reward in zip(group, rewards(group), strict=True)
    ]


def deal(rows: list[Row], group: int, rank: int, world: int, passes: int, size: int, end: int) -> list[Row]:
    """The rows of process ``rank``. All ``world`` processes and all ``passes`` get equally many, ``size`` in several.

    Over all processes, groups stay whole and in order. Masked rows in separate groups fill up the last passes. They weigh
    nothing in the loss, which is a mean over tokens.
    """
    # where the rows of a pass are whole groups, each prompt is computed in one pass
    even = math.lcm(group, world) if passes == 1 else size * world * passes
    rows = [*rows, *[Row([end], [end], [0], [0.0], None)] * (-len(rows) % even)]
    share = len(rows) // world
    return rows[rank * share : (rank + 1) * share]


def columns(rows: Sequence[Row], logprobs: bool) -> dict[str, Any]:
    """The rows as TRL's ``rollout_func`` returns them."""
    return {
        "prompt_ids": [row.prompt for row in rows],
        "completion_ids": [row.completion for row in rows],
        "env_mask": [row.mask for row in rows],
        "logprobs": [row.logprobs for row in rows] if logprobs else None,
        "episode_reward": [row.reward for row in rows],
    }


def _rollout(prompts: list[Any], trainer: _LoopTrainer) -> dict[str, Any]:
    """TRL's hook for episodes: token ids, and a mask over the tokens that the agent wrote."""
    return trainer._rows


def _reward(completions: list[Any], episode_reward: list[float | None], **_: Any) -> list[float | None]:
    """TRL's hook for rewards. A row without an episode, in place of a dropped attempt, has None."""
    return episode_reward


def _wanted(record: logging.LogRecord) -> bool:
    """Whether to show TRL's ``record``: not its warnings of rows without an episode, which replace dropped attempts."""
    return "All reward functions returned None" not in record.getMessage()


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
