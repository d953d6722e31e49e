"""The files of a run, by iteration."""

from pathlib import Path


class Paths:
    """Paths relative to the repository's root."""

    environment = Path("data/environment.json")
    panels = Path("data/panels")
    base = Path("policies/base")  # the initial model, before its warm start
    report = Path("report")
    reviews = Path("reviews")  # one file of decisions per reviewer

    @staticmethod
    def code(stage: str) -> Path:
        """The digest of a stage: its code and the parameters that it reads."""
        return Path("data/code") / f"{stage}.json"

    @staticmethod
    def data(t: int) -> Path:
        return Path("data") / str(t)

    @staticmethod
    def policy(t: int) -> Path:
        return Path("policies") / str(t)

    @staticmethod
    def failure(t: int) -> Path:
        """The failure agent before iteration t."""
        return Path("failures") / str(t)

    @staticmethod
    def generator(t: int) -> Path:
        """The task generator before iteration t."""
        return Path("generators") / str(t)

    @staticmethod
    def generations(t: int) -> Path:
        """All specs that the task generator wrote before iteration t, with their outcomes."""
        return Paths.data(t) / "generations.jsonl"

    @staticmethod
    def specs(t: int) -> Path:
        """The specs that the task generator writes in iteration t."""
        return Paths.data(t) / "specs.jsonl"

    @staticmethod
    def evaluation(t: int) -> Path:
        return Path("evaluations") / str(t)

    @staticmethod
    def panel(name: str) -> Path:
        return Paths.panels / f"{name}.jsonl"

    @staticmethod
    def tasks(t: int) -> Path:
        return Paths.data(t) / "tasks.jsonl"

    @staticmethod
    def attempts(t: int) -> Path:
        """All attempts before iteration t."""
        return Paths.data(t) / "attempts.jsonl"

    @staticmethod
    def pairs(t: int) -> Path:
        """Folder with pairs.jsonl and the episodes of the pairs: rehearsals.parquet, references.parquet and hard.parquet.

        Its subfolder ``failure`` holds the episodes and pairs of the failure agent.
        """
        return Paths.data(t) / "pairs"

    @staticmethod
    def trajectories(t: int) -> Path:
        return Paths.data(t) / "trajectories.parquet"

    @staticmethod
    def signals(t: int) -> Path:
        return Paths.data(t) / "signals.jsonl"

    @staticmethod
    def explorations(t: int) -> Path:
        return Paths.data(t) / "explorations.jsonl"

    @staticmethod
    def requests(t: int, stage: str) -> Path:
        """Folder with requests.jsonl and spend.json: a stage's requests to an endpoint and their cost."""
        return Paths.data(t) / "requests" / stage

    @staticmethod
    def candidates(t: int) -> Path:
        return Paths.data(t) / "candidates.jsonl"

    @staticmethod
    def verified(t: int) -> Path:
        """Folder with verdicts.jsonl and accepted.jsonl."""
        return Paths.data(t) / "verified"

    @staticmethod
    def summary(t: int, stage: str) -> Path:
        """The figures of a stage in iteration t."""
        return Paths.data(t) / "summary" / f"{stage}.json"

    @staticmethod
    def watch(t: int) -> Path:
        """The watchdogs' indicators of iteration t."""
        return Paths.data(t) / "watch.json"

    @staticmethod
    def validation(t: int) -> Path:
        """Folder with report.md, quarantine.jsonl and metrics.json of dataset t."""
        return Paths.data(t) / "validation"

    @staticmethod
    def data_docs(t: int) -> Path:
        """Great Expectations' pages on dataset t. They hold the time of day, so they are not a stage's output."""
        return Paths.data(t) / "data_docs"
