"""Each check finds its fault, and a sound environment has none."""

import json
import re
from pathlib import Path

import pytest

from coevolve.audit.audit import audit, write
from coevolve.audit.checks import CHECKS
from coevolve.audit.finding import SHOWN, Audit
from coevolve.core.errors import CoevolveError
from coevolve.environments.environment import Environment
from tests.unit.audit import broken, hostile
from tests.unit.environments import tracker
from tests.unit.environments.quiz import HeldOut
from tests.waiting import PATIENCE

ELSEWHERE = "semantic.verifier_portability"  # takes a process
QUICK = [name for name in CHECKS if name != ELSEWHERE]


def place(kind: type[Environment]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def found(environment: type[Environment], only: list[str] = QUICK) -> dict[str, str]:
    return {one.check: one.status for one in audited(environment, only).findings}


def audited(environment: type[Environment], only: list[str] = QUICK, seconds: float = PATIENCE) -> Audit:
    return audit(place(environment), 4, only, seconds=seconds)


def test_sound_environment_passes_all_checks() -> None:
    said = audited(HeldOut, [])
    assert {one.check: (one.status, one.evidence) for one in said.findings} == {name: ("pass", []) for name in CHECKS}
    assert said.worst() is None and not said.past("advisory") and said.looked_at == {"seed": 4, "validation": 4}


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        (broken.Lavish, {"semantic.floor_gap", "semantic.canary_floor", "runtime.episode_isolation"}),
        (broken.Stingy, {"semantic.oracle_max"}),
        (broken.Gullible, {"semantic.canary_floor"}),
        (broken.Boundless, {"runtime.reward_well_formed"}),
        (broken.Moody, {"runtime.episode_determinism", "semantic.replayability"}),
        (broken.Shared, {"runtime.episode_isolation"}),
        (broken.Parrot, set()),
        (broken.Obliging, {"runtime.tool_declaration_accuracy"}),
        (broken.Careless, {"semantic.no_solution_leakage", "data.coverage"}),
        (broken.Careful, {"data.coverage"}),
        (broken.Routine, {"data.template"}),
        (broken.Leaky, {"data.same", "data.near", "data.template", "semantic.canary_floor"}),
        (broken.Terse, set()),
        (broken.Misleading, {"data.words"}),
        (hostile.Numbered, {"contract.answers", "contract.digest"}),
        (hostile.Brittle, {"contract.bad_arguments", "runtime.tool_declaration_accuracy"}),
        (hostile.Blind, {"contract.digest"}),
        (broken.Monotonous, {"data.variety", "semantic.canary_floor"}),
    ],
)
def test_fault_is_found_by_its_checks(kind: type[Environment], faults: set[str]) -> None:
    said = audited(kind)
    bad = {one.check for one in said.findings if one.bad}
    assert bad >= faults - ({"semantic.canary_floor"} if kind is broken.Leaky else set())
    assert bad <= faults, f"{kind.__doc__} {bad - faults}"
    for one in said.findings:
        assert bool(one.evidence) == one.bad and len(one.evidence) <= SHOWN
        assert one.command.endswith(f"--only {one.check}")


def test_leak_is_reported_with_the_text_that_shows_it() -> None:
    leaky = {
        broken.Prompting: "the first message contains the right value of answer",
        broken.Hinting: "the tools that it offers contain the right value of answer",
        broken.Careless: "read_file(grader/expected.json) shows the right value of answer, which its reference does not read",
        broken.Talkative: "the answer to a wrong value of answer contains the right one",
    }
    for kind, text in leaky.items():
        (finding,) = audited(kind, ["semantic.no_solution_leakage"]).findings
        assert finding.number == 8 and all(line.endswith(f": {text}") for line in finding.evidence), finding.evidence


def test_panel_of_known_templates_is_reported() -> None:
    (finding,) = audited(broken.Routine, ["data.template"]).findings
    assert finding.measured == {"templates of seed": 2, "known in validation": 1.0}
    assert finding.evidence == [
        "validation: 8 of 8 tasks have a template of seed, 4 of them “sum_2: answer” (4 in seed)"
    ]
    assert found(broken.Uniform, ["data.template"]) == {"data.template": "skip"}
    (finding,) = audited(HeldOut, ["data.template"]).findings
    assert finding.status == "pass" and finding.measured["known in validation"] == 0.0


def test_tool_that_no_exploration_reaches_is_named_with_the_reason() -> None:
    (finding,) = audited(tracker.Secret, ["data.coverage"]).findings
    assert finding.evidence[:4] == [
        "no exploration of 4 reached lost: no value is known for lost",
        "no exploration of 4 reached unlock: no value is known for unlock",
        "the schema of lost is not understood: the reference #/$defs/Lost leads nowhere",
        "no reference of the training split calls column",
    ]


def test_answers_that_differ_in_another_process_are_found() -> None:
    (one,) = audit("miniworld", 4, [ELSEWHERE], seconds=PATIENCE).findings
    assert one.status == "pass"
    (one,) = audited(broken.Scattered, [ELSEWHERE]).findings
    assert one.status == "fail" and one.number == 8 and "differs in another process" in one.evidence[0]


def test_check_that_raises_is_a_finding_and_the_others_go_on() -> None:
    said = found(broken.Silent)
    assert said["data.coverage"] == "error" and said["semantic.oracle_max"] == "pass"
    wrong = next(one for one in audited(broken.Silent).findings if one.check == "data.coverage")
    assert wrong.bad and wrong.evidence == ["RuntimeError: no tools today"]


def test_severity_sets_the_verdict_and_unknown_checks_are_errors() -> None:
    said = audited(broken.Monotonous, ["data.variety", "data.variety"])
    assert said.worst() == "warn" and said.past("warn") and said.past("advisory") and not said.past("fail")
    assert said.counts() == {
        "passed": 0, "skipped": 0, "failed: fail": 0, "failed: warn": 1, "failed: advisory": 0,
    }  # fmt: skip
    with pytest.raises(CoevolveError, match=r"--only: no check data\.varied; expected some of: .*data\.variety"):
        audited(HeldOut, ["data.varied"])


def test_report_files_hold_all_findings_escaped(tmp_path: Path) -> None:
    said = audited(broken.Rude)
    written = write(said, tmp_path / "new")
    assert [one.name for one in written] == ["audit.json", "index.html"]
    read = json.loads(written[0].read_text())
    assert read["worst"] == "fail" and [one["check"] for one in read["findings"]] == QUICK
    text = written[1].read_text()
    assert "<script>" not in text and "http" not in text
    for name in QUICK:
        assert name in text
    assert "of the tasks are different" in text and "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (hostile.Exits, r"the environment ended the process \(exit code 7\)"),
        (hostile.Raises, "does not open: .*LookupError: no map"),
        (hostile.Taskless, "is not a Task"),
        (hostile.Unnumbered, "reward of nan"),
    ],
)
def test_an_audit_of_a_broken_environment_is_written(kind: type[Environment], reason: str, tmp_path: Path) -> None:
    said = audited(kind, ["semantic.oracle_max", "data.quarantine"])
    oracle, quarantine = said.findings
    assert oracle.bad and re.search(reason, oracle.evidence[0]), oracle.evidence
    assert [file.name for file in write(said, tmp_path)] == ["audit.json", "index.html"]
    assert json.loads((tmp_path / "audit.json").read_text())["worst"] == "fail"
    opens = kind not in (hostile.Raises, hostile.Taskless)
    assert quarantine.bad != opens, "a check that needs no episode goes on"


def test_a_check_that_never_ends_is_a_finding() -> None:
    checks = ["semantic.oracle_max", "semantic.canary_floor", "runtime.reward_well_formed", "data.quarantine"]
    said = audited(hostile.Stuck, checks, seconds=5.0)
    assert all(finding.status == "error" for finding in said.findings)
    assert [finding.evidence[0].partition(";")[0] for finding in said.findings] == [
        *["it did not end within 5 s"] * 2,
        *["not run, because 2 earlier checks did not end"] * 2,
    ]
