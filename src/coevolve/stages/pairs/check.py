"""Great Expectations over pairs: the last door before training, whoever chose them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.expectations import Expectation, Outcome, Suites, among, between, hashed, quarantined
from coevolve.core.records import Pair, Trajectory
from coevolve.core.success import is_success
from coevolve.stages.pairs.choose import distinct

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Checked:
    """``pairs`` may be learned from; ``quarantine`` holds the others, each with the expectations that it broke."""

    pairs: list[Pair]
    quarantine: list[dict[str, Any]]
    outcomes: list[Outcome]


def expectations(margin: float) -> list[Expectation]:
    """What a pair must be, whose failure is ranked ``margin`` or more below a success."""
    return [
        Expectation("id is a content hash", *hashed("pair_id")),
        Expectation("is no copy", *among("copy", False)),
        Expectation("both episodes are there", *among("episodes", 2)),
        Expectation("both are of its task", *among("of_its_task", True)),
        Expectation("the chosen one succeeds", *among("chosen_succeeds", True)),
        Expectation("the rejected one fails", *among("rejected_succeeds", False)),
        Expectation("their calls differ", *among("same_calls", False)),
        Expectation("the rejected one is far enough from success", *between("closeness", 0.0, 1.0 - margin)),
    ]


def check(pairs: Sequence[Pair], episodes: Mapping[str, Trajectory], margin: float) -> Checked:
    """Judge ``pairs`` of ``episodes`` (by id). An expectation that could not be judged is a CoevolveError: nothing passes by it."""
    outcomes = Suites(None).run("pairs", describe(pairs, episodes), expectations(margin)) if pairs else []
    if failed := next((one for one in outcomes if one.error), None):
        raise CoevolveError(f"expectation {failed.expectation.name!r} of pairs could not be judged: {failed.error}")
    quarantine = quarantined(((one.expectation.name, one.rows) for one in outcomes), [asdict(one) for one in pairs])
    broken = {one["row"] for one in quarantine}
    return Checked([one for row, one in enumerate(pairs) if row not in broken], quarantine, outcomes)


def describe(pairs: Sequence[Pair], episodes: Mapping[str, Trajectory]) -> "pd.DataFrame":
    """A row of plain facts for each pair; this is what expectations look at."""
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
                "chosen_succeeds": bool(chosen and is_success(chosen.score)),
                "rejected_succeeds": bool(rejected and is_success(rejected.score)),
                "same_calls": len(both) == 2 and len(distinct(both)) == 1,
                "closeness": pair.closeness,
            }
        )
        seen.add((pair.chosen, pair.rejected))
    return pd.DataFrame(rows)


def report(checked: Checked, name: str) -> str:
    """The report that people read."""
    lines = [f"# {name}", "", f"{len(checked.pairs)} pairs; {len(checked.quarantine)} are in quarantine.", ""]
    lines += ["| expectation | outcome |", "|---|---|"]
    for one in checked.outcomes:
        said = "holds" if one.success else f"{len(one.rows)} rows"
        lines.append(f"| {one.expectation.name} | {said} |")
    return "\n".join(lines) + "\n"
