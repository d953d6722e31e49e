"""The choices of `coevolve grow`, and the sections of the stages that follow from them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.config import EndpointSection
from coevolve.policies.config import PolicySection
from coevolve.stages.explore.config import Explore
from coevolve.stages.signals.config import Signals
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.verify.config import Select, Verify

CANDIDATES, EXPLORATIONS = 3, 6  # per task to keep, as in the loop's defaults: 384 and 768 for 128
ACTING = PolicySection(max_turns=100, episode_tokens=32768, reply_tokens=1024)  # limits as in `coevolve evaluate`


@dataclass(frozen=True, slots=True)
class GrowOptions:
    """``count`` is the number of tasks to keep. ``policy`` is a model directory or the URL of a served model.

    ``url`` and ``model`` name the served model that explores or writes. ``samples`` episodes of the policy measure each
    pass rate. ``reward`` names the reward that is the score, where a rollout has several.
    """

    count: int = 200
    explorer: str = "scripted"
    synthesizer: str = "scripted"
    policy: str | None = None
    policy_model: str = ""
    samples: int = 4
    url: str = EndpointSection().url
    model: str = ""
    words: str = "language"
    near_duplicate: float = Verify().near_duplicate
    kinds: tuple[str, ...] = tuple(Signals().kinds)
    format: str = "auto"
    reward: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.samples < 1:
            raise CoevolveError("--count and --samples: expected 1 or more")
        try:
            _ = self.signals, self.explore, self.synthesize, self.verify, self.endpoint
            _ = self.policy_endpoint
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"])) or "options"
            raise CoevolveError(f"{key}: {first['msg']}") from None
        if self.policy is not None and not self.served and not Path(self.policy).is_dir():
            raise CoevolveError(f"--policy {self.policy}: no such folder; expected a model directory or http://HOST/v1")

    @property
    def signals(self) -> Signals:
        return Signals(kinds=list(self.kinds))

    @property
    def explore(self) -> Explore:
        return Explore(explorer=self.explorer, explorations=EXPLORATIONS * self.count)

    @property
    def synthesize(self) -> Synthesize:
        return Synthesize(synthesizer=self.synthesizer)

    @property
    def verify(self) -> Verify:
        measured = self.policy is not None
        select = Select(keep=self.count) if measured else Select(keep=self.count, variety=1.0)
        words: Any = self.words
        return Verify(words=words, near_duplicate=self.near_duplicate, pass_rate_samples=self.samples, select=select)

    @property
    def endpoint(self) -> EndpointSection:
        return EndpointSection(url=self.url, model=self.model)

    @property
    def served(self) -> bool:
        """Whether ``policy`` is the URL of a served model."""
        return self.policy is not None and "://" in self.policy

    @property
    def policy_endpoint(self) -> EndpointSection | None:
        if self.policy is None or not self.served:
            return None
        return EndpointSection(url=self.policy, model=self.policy_model or self.model, temperature=1.0)
