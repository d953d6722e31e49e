"""params.yaml as typed, validated sections. A wrong key is an error that names it and the nearest right one."""

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from coevolve.errors import CoevolveError

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Iteration(Section):
    t: Whole
    next: Count


class Base(Section):
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


class Tasks(Section):
    seed_tasks: Count


class PolicySection(Section):
    threads: Count
    max_turns: Count
    max_tokens: Count
    max_reply: Count
    max_seconds: Positive


class Lora(Section):
    enabled: bool
    rank: Count
    alpha: Count


class Train(Section):
    steps: Count
    tasks_per_step: Count
    group_size: Annotated[int, Field(ge=2)]
    learning_rate: Positive
    beta: Annotated[float, Field(ge=0.0)]
    epsilon: Positive
    epsilon_high: Positive
    temperature: Positive
    refill_rounds: Whole
    save_steps: Count
    lora: Lora


class Signals(Section):
    window: Annotated[int, Field(ge=2)]
    rare_threshold: Annotated[float, Field(ge=0.0, le=100.0)]
    kinds: list[Literal["forgetting", "boundary", "rare"]]


class Explore(Section):
    explorer: Literal["scripted"]
    explorations: Whole
    max_calls: Count
    tries: Count


class Synthesize(Section):
    count: Whole


class Verify(Section):
    processes: Count
    near_duplicate: Share
    pass_rate_samples: Whole


class Validate(Section):
    min_rows: Count
    max_turn_characters: Count
    max_calls: Count
    max_near_duplicates: Share
    max_family_share: Share


class Evaluate(Section):
    tasks: Count
    temperature: Annotated[float, Field(ge=0.0)]
    bootstrap: Count
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)]


class Report(Section):
    panel: str
    traces: Whole


class Tracking(Section):
    experiment: str
    wandb: Literal["disabled", "offline", "online"]


class Params(Section):
    seed: Whole
    environment: str
    iterations: Annotated[list[Iteration], Field(min_length=1)]
    base: Base
    tasks: Tasks
    policy: PolicySection
    train: Train
    signals: Signals
    explore: Explore
    synthesize: Synthesize
    verify: Verify
    validate_: Validate = Field(alias="validate")
    evaluate: Evaluate
    report: Report
    tracking: Tracking

    @model_validator(mode="after")
    def _chained(self) -> "Params":
        for position, iteration in enumerate(self.iterations):
            if iteration.t != position or iteration.next != position + 1:
                raise ValueError(
                    f"iterations[{position}] is {{t: {iteration.t}, next: {iteration.next}}}, "
                    f"expected {{t: {position}, next: {position + 1}}}: iterations chain from 0"
                )
        return self


def load(path: Path = Path("params.yaml")) -> Params:
    """The validated parameters of ``path``; every mistake is one line that names the key."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CoevolveError(f"{path}: no such file; run from the repository's root") from None
    except yaml.YAMLError as error:
        raise CoevolveError(f"{path}: expected YAML ({' '.join(str(error).split())})") from None
    if not isinstance(raw, dict):
        raise CoevolveError(f"{path}: expected sections with keys, found {type(raw).__name__}")
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        raise CoevolveError(f"{path}: {_explain(error, raw)}") from None


def _explain(error: ValidationError, raw: dict[str, Any]) -> str:
    # a misspelt key is both unknown and missing: the former says more
    errors = error.errors()
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(first["loc"][-1]), _siblings(first["loc"][:-1]), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "remove it, or see the comments in params.yaml"
        return f"unknown key {key}; {hint}"
    if first["type"] == "missing":
        return f"missing key {key}; add it, as the repository's params.yaml has it"
    if not key:
        return str(first["msg"]).removeprefix("Value error, ")
    return f"{key}: {first['msg']}, found {first['input']!r}; change it"


def _siblings(location: tuple[int | str, ...]) -> list[str]:
    """Keys that are right at ``location`` of the parameters."""
    model: Any = Params
    for part in location:
        if isinstance(part, int):
            continue
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                arguments = getattr(field.annotation, "__args__", None)
                model = arguments[0] if arguments else field.annotation
    return [field.alias or name for name, field in model.model_fields.items()]
