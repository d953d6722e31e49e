"""Great Expectations over pairs: the last door before training, whoever chose them."""

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
    """``pairs`` may be learned from; ``quarantine`` holds the others, each with the expectations that it broke."""

    pairs: list[Pair]
    quarantine: list[dict[str, Any]]
    outcomes: list[ExpectationOutcome]


def expectations() -> list[Expectation]:
    """What a pair must be."""
    return [
        Expectation("id is a content hash", *hashed("pair_id")),
        Expectation("is no copy", *among("copy", False)),
        Expectation("both episodes are there", *among("episodes", 2)),
        Expectation("both are of its task", *among("of_its_task", True)),
        Expectation("no words of the environment are the agent's", *among("own_words", True)),
        Expectation("its kind is known", *among("kind", *KINDS)),
        Expectation("the chosen one succeeds, but among failures", *among("chosen_is_right", True)),
        Expectation("the rejected one fails", *among("rejected_succeeds", False)),
        Expectation("their calls differ", *among("same_calls", False)),
        Expectation("the rejected one has a rank", *between("closeness", 0.0, 1.0)),
        Expectation("the chosen one has a rank", *between("chosen_closeness", 0.0, 1.0)),
        Expectation("the rejected one is far enough from the chosen", *among("far", True)),
    ]


def check(pairs: Sequence[Pair], episodes: Mapping[str, Trajectory], margin: float) -> Checked:
    """Judge ``pairs`` of ``episodes`` (by id). An expectation that could not be judged is a CoevolveError: nothing passes by it."""
    outcomes = Suites(None).run("pairs", describe(pairs, episodes, margin), expectations()) if pairs else []
    if failed := next((one for one in outcomes if one.error), None):
        raise CoevolveError(f"expectation {failed.expectation.name!r} of pairs could not be judged: {failed.error}")
    quarantine = quarantined(((one.expectation.name, one.rows) for one in outcomes), [asdict(one) for one in pairs])
    broken = {one["row"] for one in quarantine}
    return Checked([one for row, one in enumerate(pairs) if row not in broken], quarantine, outcomes)


def describe(pairs: Sequence[Pair], episodes: Mapping[str, Trajectory], margin: float) -> "pd.DataFrame":
    """A row of plain facts for each pair; this is what expectations look at. ``far``: by ``margin`` or more in rank."""
    import pandas as pd

    seen: set[tuple[str, str]] = set()
    rows = []
    for pair in pairs:
        chosen, rejected = episodes.get(pair.chosen), episodes.get(pair.rejected)
        both = [one for one in (chosen, rejected) if one]
        rows.append(
            {
                "pair_id": pair.pair_id,
                "copy": (pair.chosen, pair.rejected) in seen,
                "episodes": len(both),
                "of_its_task": all(one.task_id == pair.task_id for one in both),
                # what the messages call the assistant's is learned from: as many as there were replies, or the environment spoke so
                "own_words": all(_said(one) == len(one.tokens) for one in both),
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


def _said(one: Trajectory) -> int:
    return sum(message["role"] == "assistant" for message in one.messages)


def report(checked: Checked, name: str) -> str:
    """The report that people read."""
    lines = [f"# {name}", "", f"{len(checked.pairs)} pairs; {len(checked.quarantine)} are in quarantine.", ""]
    lines += ["| expectation | outcome |", "|---|---|"]
    for one in checked.outcomes:
        said = "holds" if one.success else f"{len(one.rows)} rows"
        lines.append(f"| {one.expectation.name} | {said} |")
    return "\n".join(lines) + "\n"
