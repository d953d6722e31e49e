"""The sections of params.yaml, typed: which keys there are, what each may be, and which do not go together."""

import difflib
from collections.abc import Collection
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from coevolve.core.errors import CoevolveError
from coevolve.core.foreign import base_url
from coevolve.core.mixtures import mixture, shares

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]


def _one_of(module: str, table: str) -> AfterValidator:
    """That a text is a name in a registry. Registries stand with the stages that they are of, above this module: theirs is
    imported when a value is checked.
    """

    def check(name: str) -> str:
        names: Collection[str] = getattr(import_module(f"coevolve.{module}"), table)
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(f"expected one of: {', '.join(names)}{hint}")
        return name

    return AfterValidator(check)


def _by_pairs(learner: str) -> bool:
    learners: Collection[str] = import_module("coevolve.stages.pairs.choose").LEARNERS
    return learner in learners


Curriculum = Annotated[str, _one_of("stages.train.curriculum", "CURRICULA")]
Guidance = Annotated[str, _one_of("stages.explore.guidance", "GUIDANCE")]
Kind = Annotated[str, _one_of("stages.signals.kinds", "KINDS")]
Learner = Annotated[str, _one_of("stages.train.learner", "LEARNERS")]
Rank = Annotated[str, _one_of("stages.pairs.closeness", "RANKS")]
Schedule = Annotated[str, _one_of("stages.explore.guidance", "SCHEDULES")]
Shape = Annotated[str, _one_of("core.difficulty", "SHAPES")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Iteration(Section):
    t: Whole
    next: Count


class Base(Section):
    model: str
    revision: str | None
    seed: Whole
    layers: Count
    hidden: Count
    heads: Count
    copy_steps: Whole
    copy_batch: Count
    demonstration_steps: Whole
    unreliable_steps: Whole
    batch: Count
    learning_rate: Positive
    unreliability: Annotated[list[Share], Field(min_length=2, max_length=2)]


class Warm(Section):
    steps: Whole
    unreliable_steps: Whole
    batch: Count
    micro_batch: Whole
    learning_rate: Positive
    adapters: bool
    split: str
    tasks: Count
    demonstrations: str | None
    unreliability: Annotated[list[Share], Field(min_length=2, max_length=2)]

    @model_validator(mode="after")
    def _whose(self) -> "Warm":
        if self.unreliable_steps and self.demonstrations is not None:
            raise ValueError(
                "unreliable_steps and demonstrations do not go together: mistakes are made in references alone"
            )
        return self


class Tasks(Section):
    split: str
    seed_tasks: Count


class PolicySection(Section):
    threads: Count
    batch: Count
    max_turns: Count
    episode_tokens: Count
    reply_tokens: Count
    max_seconds: Positive
    backend: Literal["transformers", "vllm"]
    dtype: Literal["float32", "bfloat16"]
    template: dict[str, Any]


class Lora(Section):
    enabled: bool
    rank: Count
    alpha: Count
    targets: str | list[str]
    quantize: Literal["none", "4bit"]


class Vllm(Section):
    mode: Literal["off", "colocate", "server"]
    memory: Share
    url: str


class Compute(Section):
    engine: Literal["local", "ray"]
    address: str
    cpus: Count


class Launch(Section):
    processes: Count
    machines: Count
    address: str
    port: Count
    sharding: Literal["none", "zero2", "zero3"]


class Optimizer(Section):
    """What every training by gradient steps is told, whatever it learns from."""

    steps: Count
    save_steps: Count
    micro_batch: Whole
    gradient_checkpointing: bool
    lora: Lora


class Train(Optimizer):
    learner: Learner
    tasks_per_step: Count
    group_size: Annotated[int, Field(ge=2)]
    temperature: Positive
    curriculum: Curriculum
    shape: Shape
    keep_base: Annotated[float, Field(ge=0.0, lt=1.0)]
    reference: Literal["parent", "base"]
    vllm: Vllm

    @model_validator(mode="after")
    def _referred(self) -> "Train":
        if self.reference == "base" and self.lora.enabled:
            raise ValueError(
                "reference: base and lora.enabled: true do not go together: adapters are pulled to the weights that they are "
                "on, those of the parent"
            )
        return self

    @model_validator(mode="after")
    def _played(self) -> "Train":
        if _by_pairs(self.learner) and self.vllm.mode != "off":
            raise ValueError(
                f"learner: {self.learner} and vllm.mode: {self.vllm.mode} do not go together: its episodes are played before "
                "training, by policy.backend"
            )
        return self


class Grpo(Section):
    learning_rate: Positive
    beta: Annotated[float, Field(ge=0.0)]
    epsilon: Positive
    epsilon_high: Positive
    refill_rounds: Whole
    rescue: Annotated[float, Field(ge=0.0)]


class Sft(Section):
    learning_rate: Positive


class Dpo(Section):
    learning_rate: Positive
    beta: Positive
    sft_weight: Annotated[float, Field(ge=0.0)]


class FailureAgent(Section):
    """What the failure agent plays and learns by, where ``Pairs.hard`` is above 0."""

    start: Literal["agent", "own"]
    episodes: Count
    hard_episodes: Count
    closeness: Share
    steps: Count
    batch: Count
    learning_rate: Positive
    save_steps: Count
    beta: Positive


class Generate(Section):
    model: str
    revision: str | None
    frozen: bool
    variations: Count
    control: Whole
    temperature: Positive
    unit: Literal["task", "batch"]
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)]
    beta: Positive
    band: Annotated[float, Field(gt=0.0, le=1.0)]
    inverse_temperature: Annotated[float, Field(ge=0.0)]
    discount: Share
    kl: Annotated[float, Field(ge=0.0)]
    max_kl: Positive
    steps: Count
    batch: Count
    learning_rate: Positive
    save_steps: Count


class Pairs(Section):
    rank: Rank
    margin: Share
    per_task: Count
    expert: bool
    hard: Share
    failure_agent: FailureAgent


class Signals(Section):
    window: Annotated[int, Field(ge=2)]
    rare_threshold: Annotated[float, Field(ge=0.0, le=100.0)]
    kinds: list[Kind]


class Explore(Section):
    explorer: Literal["scripted", "endpoint", "policy"]
    guidance: Guidance
    schedule: Schedule
    explorations: Whole
    max_calls: Count
    tries: Count


class Synthesize(Section):
    synthesizer: Literal["scripted", "endpoint"]
    count: Whole
    errors: Annotated[float, Field(ge=0.0, le=1.0)]
    withhold: list[str]


def _url(text: str) -> str:
    base_url(text)
    return text


class EndpointSection(Section):
    model_config = ConfigDict(allow_inf_nan=False)

    url: Annotated[str, AfterValidator(_url)]
    model: str
    key: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
    concurrency: Count
    timeout: Positive
    retries: Whole
    budget_requests: Whole
    budget_tokens: Whole
    reply_tokens: Count
    temperature: Annotated[float, Field(ge=0.0)]
    input_price: Annotated[float, Field(ge=0.0)]
    output_price: Annotated[float, Field(ge=0.0)]
    replay: str | None


class Select(Section):
    """Of what is accepted, ``keep`` tasks; a share ``variety`` of them is taken family by family."""

    shape: Shape
    keep: Count
    variety: Share


class Verify(Section):
    enabled: bool
    words: Literal["none", "language", "values"]
    near_duplicate: Share
    solver_attempts: Whole
    pass_rate_samples: Whole
    select: Select | None

    @model_validator(mode="after")
    def _measured(self) -> "Verify":
        if self.select is not None and self.pass_rate_samples == 0:
            raise ValueError("select needs pass rates, and pass_rate_samples is 0")
        return self


class Validate(Section):
    min_rows: Count
    max_turn_characters: Count
    max_calls: Count
    max_near_duplicates: Share
    max_family_share: Share


class Limit(Section):
    """Of a watchdog's indicator: past ``limit`` the report says so, past ``critical`` (None: never) the pipeline stops."""

    limit: float
    critical: float | None


class Watch(Section):
    action_entropy: Limit
    duplicate_trajectories: Limit
    duplicate_tasks: Limit
    drift: Limit
    zero_variance: Limit
    regressions: Limit
    stagnant: Limit
    environment_failed: Limit
    margin: Limit
    chosen: Limit
    failure_success: Limit
    failure_idle: Limit
    failure_distinct: Limit
    generator_valid: Limit
    generator_entropy: Limit
    generator_sample: Limit


class Evaluate(Section):
    panels: Annotated[list[str], Field(min_length=1)] | None
    tasks: Count
    samples: Count
    temperature: Annotated[float, Field(ge=0.0)]
    bootstrap: Count
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)]

    @model_validator(mode="after")
    def _various(self) -> "Evaluate":
        if self.samples > 1 and self.temperature == 0.0:
            raise ValueError("samples above 1 needs a temperature above 0: greedy episodes of a task are all the same")
        return self


class Report(Section):
    panel: str
    max_regressions: Share
    traces: Whole


class Tracking(Section):
    experiment: str
    wandb: Literal["disabled", "offline", "online"]


def _mixed(given: object) -> object:
    """A mixture as text, from the mapping that `params.yaml` may hold; and only what can be read."""
    try:
        text = mixture({str(name): float(share) for name, share in given.items()}) if isinstance(given, dict) else given
        if isinstance(text, str):
            shares(text)
    except (CoevolveError, TypeError, ValueError) as error:
        raise ValueError(f"{error}; or expected a name") from None
    return text


class Params(Section):
    seed: Whole
    environment: Annotated[str, BeforeValidator(_mixed)]
    iterations: Annotated[list[Iteration], Field(min_length=1)]
    base: Base
    warm: Warm
    tasks: Tasks
    policy: PolicySection
    train: Train
    grpo: Grpo
    dpo: Dpo
    sft: Sft
    pairs: Pairs
    generate: Generate
    launch: Launch
    compute: Compute
    signals: Signals
    explore: Explore
    endpoint: EndpointSection
    synthesize: Synthesize
    verify: Verify
    watch: Watch
    validate_: Validate = Field(alias="validate")
    evaluate: Evaluate
    report: Report
    tracking: Tracking

    @model_validator(mode="after")
    def _written(self) -> "Params":
        own, explore = self.generate, self.explore
        led = explore.guidance == "generator"
        if led != (own.model != "none"):
            raise ValueError(
                f"explore.guidance: {explore.guidance} and generate.model: {own.model} do not go together: set both, or neither"
            )
        if led and len(shares(self.environment)) > 1:
            raise ValueError(
                f"environment: {self.environment} and generate.model: {own.model} do not go together: a generator is made for one "
                "environment's tools; set generate.model: none, or name one environment"
            )
        if led and explore.explorer != "scripted":
            raise ValueError(
                f"explore.guidance: generator and explore.explorer: {explore.explorer} do not go together: it names tools to call, "
                "which only the scripted explorer keeps to"
            )
        if led and not own.frozen and self.verify.pass_rate_samples == 0:
            raise ValueError(
                "generate.frozen: false needs pass rates to learn from, and verify.pass_rate_samples is 0; change one of them"
            )
        wanted = explore.explorations + (0 if own.frozen else own.control)
        if led and self.synthesize.count < wanted:
            raise ValueError(
                f"synthesize.count: {self.synthesize.count} leaves no room for explore.explorations and generate.control, "
                f"{wanted} together; raise it, or lower these"
            )
        return self

    @model_validator(mode="after")
    def _in_turns(self) -> "Params":
        if _by_pairs(self.train.learner) and self.pairs.hard and self.policy.backend == "vllm":
            raise ValueError(
                f"pairs.hard: {self.pairs.hard:g} and policy.backend: vllm do not go together: two agents play in turns, and vLLM "
                "keeps its memory; set policy.backend: transformers, or pairs.hard: 0"
            )
        return self

    @model_validator(mode="after")
    def _watched(self) -> "Params":
        if self.evaluate.panels is not None and self.report.panel not in self.evaluate.panels:
            raise ValueError(
                f"report.panel is {self.report.panel}, which evaluate.panels leaves out; change one of them"
            )
        return self

    @model_validator(mode="after")
    def _chained(self) -> "Params":
        for position, iteration in enumerate(self.iterations):
            if iteration.t != position or iteration.next != position + 1:
                raise ValueError(
                    f"iterations[{position}] is {{t: {iteration.t}, next: {iteration.next}}}, "
                    f"expected {{t: {position}, next: {position + 1}}}: iterations chain from 0"
                )
        return self


def plain(params: Params) -> dict[str, Any]:
    """All of them as params.yaml has them, for a tracker: a stage depends on the sections that shape its outputs."""
    return params.model_dump(by_alias=True)
