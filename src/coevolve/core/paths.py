"""Where the files of a run are, by iteration."""

from pathlib import Path


class Paths:
    """Where everything is, relative to the repository's root."""

    environment = Path("data/environment.json")
    panels = Path("data/panels")
    base = Path("policies/base")  # the model to start from, before its warm start
    report = Path("report")
    reviews = Path("reviews")  # a file of each reviewer's decisions

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
        """The generator of tasks before iteration t."""
        return Path("generators") / str(t)

    @staticmethod
    def generations(t: int) -> Path:
        """All that it wrote before iteration t, and what came of it."""
        return Paths.data(t) / "generations.jsonl"

    @staticmethod
    def specs(t: int) -> Path:
        """What it writes in iteration t."""
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
        """Every attempt made before iteration t."""
        return Paths.data(t) / "attempts.jsonl"

    @staticmethod
    def pairs(t: int) -> Path:
        """Folder with pairs.jsonl, and the episodes that they are of: rehearsals.parquet, references.parquet and
        hard.parquet; in ``failure``, what the failure agent played and learned from.
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
        """Folder with requests.jsonl and spend.json: what a stage asked of an endpoint."""
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
        """What a stage says of iteration t in figures."""
        return Paths.data(t) / "summary" / f"{stage}.json"

    @staticmethod
    def watch(t: int) -> Path:
        """The watchdogs' indicators of iteration t."""
        return Paths.data(t) / "watch.json"

    @staticmethod
    def validation(t: int) -> Path:
        """Folder with report.md, quarantine.jsonl and metrics.json of the dataset of t."""
        return Paths.data(t) / "validation"

    @staticmethod
    def data_docs(t: int) -> Path:
        """Great Expectations' own pages of the dataset of t: for people alone and no output, since they hold the time of day."""
        return Paths.data(t) / "data_docs"
