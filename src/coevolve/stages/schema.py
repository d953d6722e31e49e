"""All sections of params.yaml, and the rules between them. Each section is declared beside the stage that reads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from coevolve.core.errors import CoevolveError
from coevolve.core.launch import Launch
from coevolve.core.pipeline import Iteration
from coevolve.core.section import LearnerConfig, Section, Whole, explain, load_yaml, one_of, unknown, validated
from coevolve.core.workers import Compute
from coevolve.endpoint.config import EndpointSection
from coevolve.environments.registry import is_own
from coevolve.environments.registry import names as environments
from coevolve.policies.config import PolicySection
from coevolve.policies.pretrained import shipped
from coevolve.stages.base.config import Base
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.explore.config import Explore
from coevolve.stages.generate.config import Generate
from coevolve.stages.method import COEVOLVE, METHODS, with_method
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.report.config import Report
from coevolve.stages.signals.config import Signals
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.tasks.config import Tasks
from coevolve.stages.train.config import Train, config_of
from coevolve.stages.train.learners import LEARNERS
from coevolve.stages.validate.config import Validate
from coevolve.stages.verify.config import Verify
from coevolve.stages.warm.config import Warm
from coevolve.tracking.config import Tracking

PARAMS = Path("params.yaml")
# properties of Params that stages read like sections
DERIVED = ("learner", "trains", "by_pairs", "candidates", "new_words")


class Params(Section):
    """params.yaml as a whole. ``learners`` holds the sections of learners, which params.yaml has at its top."""

    seed: Whole = 0
    """Seed from which all random numbers derive, together with the stage, the iteration and the step."""
    method: Annotated[str, one_of(lambda: METHODS)] = COEVOLVE
    """What the agent's failures become: coevolve, new tasks; genenv, targets of a task generator; coevolving_agents, hard negatives."""
    environment: Annotated[str, one_of(environments, places=True)] = "miniworld"
    """A name from `coevolve env list`, or FILE.py:CLASS."""
    iterations: Annotated[list[Iteration], Field(min_length=1)]
    """The unrolled loop: iteration t trains on data/t and writes policies/next and data/next."""
    base: Base = Base()
    warm: Warm = Warm()
    tasks: Tasks = Tasks()
    policy: PolicySection = PolicySection()
    pairs: Pairs = Pairs()
    train: Train = Train()
    learners: dict[str, LearnerConfig] = {}
    launch: Launch = Launch()
    compute: Compute = Compute()
    signals: Signals = Signals()
    generate: Generate = Generate()
    explore: Explore = Explore()
    endpoint: EndpointSection = EndpointSection()
    synthesize: Synthesize = Synthesize()
    verify: Verify = Verify()
    validate_: Validate = Field(default=Validate(), alias="validate")
    evaluate: Evaluate = Evaluate()
    report: Report = Report()
    tracking: Tracking = Tracking()

    @property
    def learner(self) -> LearnerConfig:
        """The section of the learner that ``train.learner`` names."""
        return self.learners[self.train.learner]

    @property
    def trains(self) -> bool:
        """Whether the learner writes a policy."""
        return self.learner.trains

    @property
    def by_pairs(self) -> bool:
        """Whether the learner learns from preference pairs."""
        return self.learner.by_pairs

    @property
    def candidates(self) -> int:
        """The most candidates that stage `synthesize` makes in an iteration."""
        if self.synthesize.count is not None:
            return self.synthesize.count
        return self.explore.explorations // (1 if self.explore.guidance == "generator" else 2)

    @property
    def new_words(self) -> bool:
        """Whether a policy that a package ships, as `tiny`, must learn the words of a user's own environment."""
        return is_own(self.environment) and shipped(self.base.model) is not None

    @model_validator(mode="after")
    def _generator(self) -> "Params":
        generate, explore = self.generate, self.explore
        asked = explore.guidance == "generator"
        if asked != (generate.model != "none"):
            raise ValueError(
                f"explore.guidance: {explore.guidance} and generate.model: {generate.model} do not go together: set both, or "
                "neither; `method: genenv` sets both"
            )
        if not asked:
            return self
        if explore.explorer != "scripted":
            raise ValueError(
                f"explore.guidance: generator and explore.explorer: {explore.explorer} do not go together: the generator names "
                "tools to call, and only the scripted explorer follows them"
            )
        if not generate.frozen and self.verify.pass_rate_samples == 0:
            raise ValueError(
                "generate.frozen: false needs pass rates to learn from, and verify.pass_rate_samples is 0; change one of them"
            )
        if self.candidates < explore.explorations:
            raise ValueError(
                f"synthesize.count: {self.synthesize.count} is less than explore.explorations: {explore.explorations}; raise it, "
                "or lower the other"
            )
        return self

    @model_validator(mode="after")
    def _by_pairs(self) -> "Params":
        if not self.by_pairs:
            return self
        if self.train.vllm.mode != "off":
            raise ValueError(
                f"train.learner: {self.train.learner} and train.vllm.mode: {self.train.vllm.mode} do not go together: "
                "policy.backend plays this learner's episodes before training; change one of them"
            )
        if self.pairs.hard and self.policy.backend == "vllm":
            raise ValueError(
                f"pairs.hard: {self.pairs.hard:g} and policy.backend: vllm do not go together: two agents take turns, and vLLM "
                "keeps its memory; set policy.backend: transformers, or pairs.hard: 0"
            )
        return self

    @model_validator(mode="after")
    def _panels(self) -> "Params":
        if self.evaluate.panels is not None and self.report.panel not in self.evaluate.panels:
            raise ValueError(f"report.panel is {self.report.panel}, which evaluate.panels omits; change one of them")
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


def load(path: Path = PARAMS) -> Params:
    """The validated parameters of ``path``; every mistake is one line that names the key."""
    return parse(load_yaml(path, "run in a project's folder; `coevolve init DIR` makes a project"), str(path))


def parse(raw: Any, where: str) -> Params:
    """The validated parameters that ``raw`` holds; ``where`` names their source in errors."""
    if not isinstance(raw, dict):
        raise CoevolveError(f"{where}: expected sections with keys, found {type(raw).__name__}")
    learners = LEARNERS.names()
    loop = [field.alias or name for name, field in Params.model_fields.items() if name != "learners"]
    if taken := set(learners) & set(loop):
        raise CoevolveError(
            f"learner {min(taken)}: params.yaml has a section of that name already; rename its entry point"
        )
    keys = [*loop, *learners]
    for key in raw:
        if key not in keys:
            raise CoevolveError(f"{where}: {unknown(str(key), keys)}")
    try:
        values = with_method(raw)
        sections = {name: validated(config_of(name), values.pop(name, {}), name) for name in learners}
        return Params.model_validate({**values, "learners": sections})
    except ValidationError as error:
        raise CoevolveError(f"{where}: {explain(error, Params)}") from None
    except CoevolveError as error:
        raise CoevolveError(f"{where}: {error}") from None


def plain(params: Params) -> dict[str, Any]:
    """All parameters as params.yaml has them, defaults filled in."""
    values = params.model_dump(mode="json", by_alias=True, exclude={"learners"})
    return {**values, **{name: section.model_dump(mode="json") for name, section in params.learners.items()}}


def value(params: Params, key: str) -> Any:
    """The value of `section.key`, or of a property such as `learner`, as a JSON value."""
    if key in DERIVED:
        held = getattr(params, key)
        return held.model_dump(mode="json") if isinstance(held, Section) else held
    values: Any = plain(params)
    for name in key.split("."):
        values = values[name]
    return values


def sections() -> Mapping[str, type[Section]]:
    """Name → class of every section, those of learners included, in the order of the loop."""
    classes: dict[str, type[Section]] = {}
    for name, field in Params.model_fields.items():
        if name == "learners":
            classes |= {learner: config_of(learner) for learner in LEARNERS.names()}
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            classes[field.alias or name] = field.annotation
    return classes
