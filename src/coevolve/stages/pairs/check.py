"""Check pairs by Great Expectations, the last gate before training."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.expectations import Expectation, ExpectationOutcome, Suites, among, between, hashed, quarantined
from coevolve.core.records import Pair
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.choose import AMONG, KINDS, distinct

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Checked:
    """``pairs`` passed the check; ``quarantine`` holds the others, each with the expectations that it broke."""

    pairs: list[Pair]
    quarantine: list[dict[str, Any]]
    outcomes: list[ExpectationOutcome]


def expectations() -> list[Expectation]:
    """The expectations that a pair must meet."""
    return [
        Expectation("id is a content hash", *hashed("pair_id")),
        Expectation("is no copy", *among("copy", False)),
        Expectation("both episodes exist", *among("episodes", 2)),
        Expectation("both episodes are of the pair's task", *among("of_its_task", True)),
        Expectation("the agent wrote every assistant message", *among("own_words", True)),
        Expectation("its kind is known", *among("kind", *KINDS)),
        Expectation("the chosen episode succeeds, except in pairs of two failures", *among("chosen_is_right", True)),
        Expectation("the rejected one fails", *among("rejected_succeeds", False)),
        Expectation("their calls differ", *among("same_calls", False)),
        Expectation("the rejected one has a rank", *between("closeness", 0.0, 1.0)),
        Expectation("the chosen one has a rank", *between("chosen_closeness", 0.0, 1.0)),
        Expectation("the rejected one is far enough from the chosen", *among("far", True)),
    ]


def check(pairs: Sequence[Pair], episodes: Mapping[str, Trajectory], margin: float) -> Checked:
    """Check ``pairs`` of ``episodes``, given by id. Raise a CoevolveError if an expectation could not be judged."""
    outcomes = Suites(None).run("pairs", describe(pairs, episodes, margin), expectations()) if pairs else []
    if failed := next((outcome for outcome in outcomes if outcome.error), None):
        raise CoevolveError(f"expectation {failed.expectation.name!r} of pairs could not be judged: {failed.error}")
    failures = ((outcome.expectation.name, outcome.rows) for outcome in outcomes)
    quarantine = quarantined(failures, [asdict(pair) for pair in pairs])
    broken = {entry["row"] for entry in quarantine}
    return Checked([pair for row, pair in enumerate(pairs) if row not in broken], quarantine, outcomes)


def describe(pairs: Sequence[Pair], episodes: Mapping[str, Trajectory], margin: float) -> "pd.DataFrame":
    """The facts that expectations look at, one row per pair. ``far``: the ranks differ by ``margin`` or more."""
    import pandas as pd

    seen: set[tuple[str, str]] = set()
    rows = []
    for pair in pairs:
        chosen, rejected = episodes.get(pair.chosen), episodes.get(pair.rejected)
        both = [episode for episode in (chosen, rejected) if episode]
        rows.append(
            {
                "pair_id": pair.pair_id,
                "copy": (pair.chosen, pair.rejected) in seen,
                "episodes": len(both),
                "of_its_task": all(episode.task_id == pair.task_id for episode in both),
                # training learns from assistant messages: if they outnumber the replies, the environment wrote some of them
                "own_words": all(_assistant_messages(episode) == len(episode.tokens) for episode in both),
                "kind": pair.kind,
                "chosen_is_right": bool(chosen and is_success(chosen.score) != (pair.kind == AMONG)),
                "rejected_succeeds": bool(rejected and is_success(rejected.score)),
                "same_calls": len(both) == 2 and len(distinct(both)) == 1,
                "closeness": pair.closeness,
                "chosen_closeness": pair.chosen_closeness,
                "far": pair.closeness <= pair.chosen_closeness - margin,
            }
        )
        seen.add((pair.chosen, pair.rejected))
    return pd.DataFrame(rows)


def _assistant_messages(episode: Trajectory) -> int:
    return sum(message["role"] == "assistant" for message in episode.messages)


def report(checked: Checked, name: str) -> str:
    """The check as a Markdown page."""
    lines = [f"# {name}", "", f"{len(checked.pairs)} pairs; {len(checked.quarantine)} are in quarantine.", ""]
    lines += ["| expectation | outcome |", "|---|---|"]
    for outcome in checked.outcomes:
        result = "holds" if outcome.success else f"{len(outcome.rows)} rows"
        lines.append(f"| {outcome.expectation.name} | {result} |")
    return "\n".join(lines) + "\n"
