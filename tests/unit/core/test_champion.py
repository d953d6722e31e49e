"""The gate of `champion`: certain gains, few regressions, and a reason for each verdict."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from coevolve.core.champion import ChampionGate, ChampionRule, Incumbent, challenge, contest, promoted
from coevolve.core.io import parse, write_jsonl
from coevolve.core.outcomes import Outcome

RULE = ChampionRule("test", 0.25, bootstrap=500, confidence=0.95, seed=0)
NAMES = ["policies/0", "policies/1", "policies/2", "policies/3"]


def solves(first: int, last: int) -> dict[str, float]:
    return {f"{n:016x}": float(first <= n < last) for n in range(128)}


def test_champion_changes_only_by_certain_gains() -> None:
    found = [solves(0, 60), solves(0, 90), solves(0, 92), solves(0, 40)]
    holder, challenges = contest(found, RULE, NAMES, {})
    assert holder == 1
    assert [one.taken for one in challenges] == [True, False, False]
    assert [one.holder for one in challenges] == [0, 1, 1]
    assert challenges[0].reason.startswith("policies/1 replaces policies/0: gain +0.234")
    assert "no certain gain" in challenges[1].reason


def test_gain_with_too_many_lost_tasks_does_not_count() -> None:
    both = [solves(0, 60), solves(20, 120)]
    holder, (refused,) = contest(both, RULE, NAMES, {})
    assert holder == 0
    assert refused.lost == 20
    assert "lost more than 25%" in refused.reason
    assert "20 of 60 solved tasks lost" in refused.reason
    assert contest(both, replace(RULE, max_regressions=0.34), NAMES, {})[0] == 1


@pytest.mark.parametrize("panel", ["validation", "test"])
def test_scores_come_from_one_panel(tmp_path: Path, panel: str) -> None:
    one = Outcome("validation", "a", "f", 1.0, True, "done", 4, 40, {})
    other = Outcome("test", "b", "f", 0.2, False, "done", 4, 40, {})
    write_jsonl(tmp_path / "outcomes.jsonl", [one, other])
    gate = challenge("ours", tmp_path / "outcomes.jsonl", replace(RULE, panel=panel))
    assert gate.scores == ({"a": 1.0} if panel == "validation" else {"b": 0.0})
    assert gate.kinds == dict.fromkeys(gate.scores, "f")


def test_gain_of_few_kinds_of_tasks_is_not_certain() -> None:
    """Of 16 kinds of 8 tasks, two are won whole: much for 128 tasks, little for 16 kinds."""
    both, kinds = [solves(0, 60), solves(0, 76)], {f"{n:016x}": str(n // 8) for n in range(128)}
    assert contest(both, RULE, NAMES, {})[0] == 1
    holder, (refused,) = contest(both, RULE, NAMES, kinds)
    assert holder == 0 and "no certain gain: gain +0.125 (+0.000 to" in refused.reason


def test_every_kind_of_holder_is_challenged_by_the_same_rule(tmp_path: Path) -> None:
    """A holder that was not measured on these tasks, or that is the same policy, blocks no challenger."""

    def holder(digest: str, solved: int | None) -> Incumbent:
        if solved is None:
            return Incumbent("version 1", digest, None)
        found = [Outcome("test", task, "f", won, won > 0, "done", 1, 1, {}) for task, won in solves(0, solved).items()]
        write_jsonl(tmp_path / "outcomes.jsonl", found)
        return Incumbent("version 1", digest, tmp_path / "outcomes.jsonl")

    ours = ChampionGate("ours", solves(0, 90), RULE)
    assert promoted(ours, None, "version 2") == (True, "the first")
    assert promoted(ours, holder("ours", 10), "version 2")[1].startswith("the same policy as version 1")
    assert promoted(ours, holder("theirs", None), "version 2")[1] == "version 1 was not measured on these tasks of test"
    taken, why = promoted(ours, holder("theirs", 60), "version 2")
    assert taken and why.startswith("version 2 replaces version 1: gain +0.234")
    taken, why = promoted(ours, holder("theirs", 100), "version 2")
    assert not taken and why.startswith("version 1 stays, as version 2 has no certain gain")
    assert parse(ChampionGate, asdict(ours), "gate") == ours
