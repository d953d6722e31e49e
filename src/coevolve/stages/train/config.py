"""Section `train`, the keys that all learners share, and the sections of our own learners.

The learners' modules need torch, and every command reads their sections: so the sections stand here.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from coevolve.core.errors import CoevolveError
from coevolve.core.learnability import SHAPES
from coevolve.core.section import Count, LearnerConfig, NotNegative, Positive, Section, Share, Whole, one_of
from coevolve.stages.train.learners import LEARNERS


class Lora(Section):
    enabled: bool = False
    """Whether to train low-rank adapters, merged at the end, instead of all weights."""
    rank: Count = 16
    """Rank of the adapters."""
    alpha: Count = 32
    """Scale of the adapters."""
    targets: str | list[str] = "all-linear"
    """Layers that get adapters, such as [q_proj, v_proj]."""
    quantize: Literal["none", "4bit"] = "none"
    """4bit trains adapters on quantized weights (QLoRA, with bitsandbytes)."""


class Vllm(Section):
    mode: Literal["off", "colocate", "server"] = "off"
    """Engine that generates in training: off, transformers; colocate, vLLM on the training devices; server, a vLLM server."""
    memory: Share = 0.3
    """Share of a GPU's memory for a colocated vLLM."""
    url: str = "http://127.0.0.1:8001"
    """Address of the vLLM server."""


class Optimizer(Section):
    """Keys of every training by gradient steps."""

    steps: Count = 20
    """Optimizer steps per iteration."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rate over the steps of an iteration: constant, or linear, falling to 0."""
    save_steps: Count = 10
    """Steps between checkpoints, of the helper models too."""
    micro_batch: Whole = 0
    """Episodes in one forward and backward pass of a process; 0 means its share of a step, of dpo and sft a quarter of it."""
    gradient_checkpointing: bool = False
    """Whether to recompute activations in the backward pass: less memory, a third more time."""
    share_prefixes: bool = True
    """Whether training passes compute a long prompt that rows share once: equal up to rounding, several times as fast."""
    lora: Lora = Lora()


class ReplayedSplit(Section):
    share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.15
    """Share of the groups of a step of grpo in which successful episodes of policies/0 are cloned, against forgetting; 0 is none."""
    split: str | None = None
    """Training split whose tasks policies/0 plays for this: what must not be lost; null takes `broad` of environments that have it."""


class Train(Optimizer):
    learner: Annotated[str, one_of(LEARNERS.names)] = "grpo"
    """Learner: grpo, from its own attempts; dpo, from preference pairs; sft, from successful episodes; import, not at all."""
    rollouts: str | list[str] = []
    """Files, folders or globs of another trainer's rollouts, which learner import takes for the agent's."""
    tasks_per_step: Count = 16
    """Tasks per optimizer step, one group of attempts each."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Attempts at one task in a step (K)."""
    temperature: Positive = 1.0
    """Sampling temperature of the attempts."""
    curriculum: Literal["even", "learnable"] = "learnable"
    """Order of tasks: even, all equally often; learnable, untried tasks first, then tasks solved about half the time."""
    shape: Annotated[str, one_of(SHAPES.keys)] = "variance"
    """Learnability of a task solved with probability p: variance, 4p(1-p), or bell."""
    keep_base: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """Share of policies/0 in the averaged weights of the new policy, against forgetting."""
    anchor: Literal["parent", "base"] = "parent"
    """Policy that the KL terms of grpo and dpo pull towards: parent, policies/t; base, policies/0."""
    replay: ReplayedSplit = ReplayedSplit()
    vllm: Vllm = Vllm()

    @property
    def replay_groups(self) -> int:
        """The groups of a step that hold cloned episodes instead of attempts."""
        return max(1, round(self.replay.share * self.tasks_per_step)) if self.replay.share else 0

    @model_validator(mode="after")
    def _anchored(self) -> "Train":
        if self.anchor == "base" and self.lora.enabled:
            raise ValueError(
                "anchor: base and lora.enabled: true do not go together: the KL term pulls adapters towards the weights that "
                "they adapt, those of the parent"
            )
        return self


class Grpo(LearnerConfig):
    learning_rate: Positive = 0.00015
    """Learning rate; twice this value drifts on the embedded policy."""
    beta: NotNegative = 0.1
    """Weight of the KL divergence from train.anchor; at 0.001 the agent forgets tasks that it does not train on."""
    epsilon: Positive = 0.2
    """Lower clip range."""
    epsilon_high: Positive = 0.28
    """Upper clip range."""
    refill_rounds: Whole = 1
    """Rounds that replace groups of equal rewards by new groups."""


class Dpo(LearnerConfig):
    by_pairs: ClassVar[bool] = True
    learning_rate: Positive = 0.00002
    """Learning rate; GRPO's rate is too high here, because pairs pull in one direction and groups in several."""
    beta: Positive = 0.1
    """Scale of the log-ratios to train.anchor."""
    sft_weight: NotNegative = 0.5
    """Weight of the preferred episode's likelihood; the preference has weight 1."""


class Sft(LearnerConfig):
    by_pairs: ClassVar[bool] = True
    learning_rate: Positive = 0.00002
    """Learning rate."""


OWN: dict[str, type[LearnerConfig]] = {"grpo": Grpo, "dpo": Dpo, "sft": Sft}


def config_of(name: str) -> type[LearnerConfig]:
    """The class of a learner's section: it stands above, or in the learner's module."""
    if name in OWN:
        return OWN[name]
    module = LEARNERS.module(name)
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, LearnerConfig):
            return value
    raise CoevolveError(f"learner {name}: {module.__name__} has no class that inherits LearnerConfig")
