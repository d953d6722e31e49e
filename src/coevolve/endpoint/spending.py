"""A stage's spending at an endpoint: shown while it runs, and stored with its result and with every request and reply."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json, write_jsonl
from coevolve.endpoint.client import Endpoint, open_endpoint
from coevolve.endpoint.config import EndpointSection

if TYPE_CHECKING:
    from tqdm import tqdm

LOST = ("dropped", "unanswered", "out of budget")  # fates of unused replies


@dataclass
class Meter:
    """``endpoint`` is None if the stage sends no request. ``counts`` holds the fates of replies."""

    endpoint: Endpoint | None
    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, Any] = field(default_factory=dict)  # the contents of spend.json, after the block of `metered`

    def costs(self) -> dict[str, int | float]:
        """The figures of the spending; empty without requests."""
        if self.endpoint is None:
            return {}
        return {
            "endpoint replies": self.sums["replies"],
            "endpoint prompt tokens": self.sums["prompt_tokens"],
            "endpoint completion tokens": self.sums["completion_tokens"],
            "endpoint dollars": self.sums["cost"],
        }

    def lost(self) -> list[str]:
        """A sentence for each fate of unused replies."""
        return [f"replies {name}: {self.counts[name]}" for name in LOST if self.counts[name]]

    def __str__(self) -> str:
        """The spending and the unused replies, for the last line of a stage; empty without requests."""
        if self.endpoint is None:
            return ""
        lost = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
        return f"; {self.endpoint.spend}{f'; replies: {lost}' if lost else ''}"


@contextmanager
def metered(
    config: EndpointSection, asked: bool, folder: Path, progress: "tqdm[Any]", log: Path | None = None
) -> Iterator[Meter]:
    """A meter that shows its spending on ``progress`` and writes it to ``folder`` at the end of the block.

    requests.jsonl holds all requests and replies, enough for a replay, and spend.json holds the sums. Both depend only on the
    replies. Without ``asked``, both are empty. ``log`` keeps the replies, by default in the scratch folder.
    """
    endpoint = open_endpoint(config, log) if asked else None
    meter = Meter(endpoint)
    used: list[dict[str, Any]] = []
    try:
        if endpoint is not None:
            endpoint.watch = lambda: progress.set_postfix_str(str(endpoint.spend), refresh=False)
        yield meter
    finally:
        if endpoint is not None:
            endpoint.close()
            used = endpoint.used()
    if endpoint is not None and endpoint.missing and not used:
        raise CoevolveError(
            f"endpoint.replay: {config.replay} holds none of this stage's requests; it belongs to another run "
            "(other data, seed, model or prompts)"
        )
    write_jsonl(folder / "requests.jsonl", used)
    prompts = sum(line["reply"]["prompt_tokens"] for line in used)
    completions = sum(line["reply"]["completion_tokens"] for line in used)
    meter.sums = {
        "model": endpoint.model if endpoint else None,
        "replies": len(used),
        "prompt_tokens": prompts,
        "completion_tokens": completions,
        "cost": (prompts * config.input_price + completions * config.output_price) / 1e6,
        **{name: meter.counts[name] for name in ("repaired", *LOST)},
    }
    write_json(folder / "spend.json", meter.sums)
