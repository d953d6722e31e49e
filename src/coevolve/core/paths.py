"""The files of a run, by iteration."""

from collections.abc import Callable, Collection
from pathlib import Path


def _numbered(pattern: str) -> Callable[[int], Path]:
    """A path by iteration t, or by the number t of a policy, for which ``pattern`` has {t}."""
    return lambda t: Path(pattern.format(t=t))


class Paths:
    """Paths relative to the repository's root."""

    environment = Path("data/environment.json")
    panels = Path("data/panels")
    replay = Path("data/replay/episodes.parquet")  # successful episodes of policies/0 that training clones
    base = Path("policies/base")  # the initial model, before its warm start
    champion = Path("policies/champion")  # a copy of the best policy of the run
    report = Path("report")
    reviews = Path("reviews")  # one file of decisions per reviewer

    policy = _numbered("policies/{t}")
    failure = _numbered("failures/{t}")  # the failure agent before iteration t
    generator = _numbered("generators/{t}")  # the task generator before iteration t
    evaluation = _numbered("evaluations/{t}")
    data = _numbered("data/{t}")
    tasks = _numbered("data/{t}/tasks.jsonl")
    attempts = _numbered("data/{t}/attempts.jsonl")  # all attempts before iteration t
    generations = _numbered("data/{t}/generations.jsonl")  # all earlier specs of the task generator, with outcomes
    # pairs.jsonl and the episodes of the pairs: rehearsals.parquet, references.parquet and hard.parquet. Its subfolder
    # `failure` holds the episodes and pairs of the failure agent
    pairs = _numbered("data/{t}/pairs")
    trajectories = _numbered("data/{t}/trajectories.parquet")
    signals = _numbered("data/{t}/signals.jsonl")
    specs = _numbered("data/{t}/specs.jsonl")  # the specs that the task generator writes in iteration t
    explorations = _numbered("data/{t}/explorations.jsonl")
    candidates = _numbered("data/{t}/candidates.jsonl")
    verified = _numbered("data/{t}/verified")  # verdicts.jsonl and accepted.jsonl
    indicators = _numbered("data/{t}/indicators.jsonl")  # the watchdogs of iteration t
    validation = _numbered("data/{t}/validation")  # quarantine.jsonl of dataset t
    # Great Expectations' pages on dataset t. They hold the time of day, so they are not a stage's output
    data_docs = _numbered("data/{t}/data_docs")

    @staticmethod
    def code(stage: str) -> Path:
        """The digest of a stage: its code and the parameters that it reads."""
        return Path("data/code") / f"{stage}.json"

    @staticmethod
    def panel(name: str) -> Path:
        return Paths.panels / f"{name}.jsonl"

    @staticmethod
    def panel_names(environment: Collection[str]) -> list[str]:
        """The frozen panels: those of the environment, and then those that `tasks.panels` added."""
        added = sorted(file.stem for file in Paths.panels.glob("*.jsonl"))
        return list(dict.fromkeys([*environment, *added]))

    @staticmethod
    def requests(t: int, stage: str) -> Path:
        """Folder with requests.jsonl and spend.json: a stage's requests to an endpoint and their cost."""
        return Paths.data(t) / "requests" / stage

    @staticmethod
    def summary(t: int, stage: str) -> Path:
        """The figures of a stage in iteration t."""
        return Paths.data(t) / "summary" / f"{stage}.json"
