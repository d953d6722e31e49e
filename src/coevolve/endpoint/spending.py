"""What a stage spent at an endpoint: shown while it runs, and kept beside its result with every request and reply."""

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

LOST = ("dropped", "unanswered", "out of budget")  # what may become of a reply but to be used


@dataclass
class Meter:
    """``endpoint`` to spend at, None where nothing is asked; ``counts`` of what became of replies."""

    endpoint: Endpoint | None
    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, Any] = field(default_factory=dict)  # what spend.json says, once the block of `metered` has ended

    def costs(self) -> dict[str, int | float]:
        """Figures of what was spent; none where nothing was asked."""
        if self.endpoint is None:
            return {}
        return {
            "endpoint replies": self.sums["replies"],
            "endpoint prompt tokens": self.sums["prompt_tokens"],
            "endpoint completion tokens": self.sums["completion_tokens"],
            "endpoint dollars": self.sums["cost"],
        }

    def lost(self) -> list[str]:
        """Of replies that came to nothing, a sentence for each way."""
        return [f"replies {name}: {self.counts[name]}" for name in LOST if self.counts[name]]

    def __str__(self) -> str:
        """What was spent and what was lost, for the last line of a stage; empty where nothing was asked."""
        if self.endpoint is None:
            return ""
        lost = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
        return f"; {self.endpoint.spend}{f'; replies: {lost}' if lost else ''}"


@contextmanager
def metered(
    config: EndpointSection, asked: bool, folder: Path, progress: "tqdm[Any]", log: Path | None = None
) -> Iterator[Meter]:
    """A meter whose spending is shown on ``progress`` and, at the end of the block, written to ``folder``.

    requests.jsonl holds what was asked and answered, enough for a replay; spend.json the sums. Both depend on the
    replies alone. Without ``asked`` both say that nothing was. ``log`` keeps the replies, by default in the scratch folder.
    """
    meter = Meter(open_endpoint(config, log) if asked else None)
    endpoint = meter.endpoint
    try:
        if endpoint is not None:
            endpoint.watch(lambda spend: progress.set_postfix_str(str(spend), refresh=False))
        yield meter
    finally:
        if endpoint is not None:
            endpoint.close()
    used = endpoint.used() if endpoint else []
    if endpoint is not None and endpoint.missing and not used:
        raise CoevolveError(
            f"endpoint.replay: {config.replay} holds none of the requests that were made; it belongs to another run "
            "(other data, seed, model or prompts)"
        )
    write_jsonl(folder / "requests.jsonl", used)
    meter.sums = _sums(config, endpoint, used, meter.counts)
    write_json(folder / "spend.json", meter.sums)


def _sums(
    config: EndpointSection, endpoint: Endpoint | None, used: list[dict[str, Any]], counts: Counter[str]
) -> dict[str, Any]:
    replies = [line["reply"] for line in used]
    prompts = sum(reply["prompt_tokens"] for reply in replies)
    completions = sum(reply["completion_tokens"] for reply in replies)
    return {
        "model": endpoint.model if endpoint else None,
        "replies": len(replies),
        "prompt_tokens": prompts,
        "completion_tokens": completions,
        "cost": (prompts * config.input_price + completions * config.output_price) / 1e6,
        **{name: counts[name] for name in ("repaired", *LOST)},
    }
