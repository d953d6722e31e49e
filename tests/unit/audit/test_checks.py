"""Each check finds its fault, and a sound environment has none."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coevolve.audit.checks import CHECKS
from coevolve.audit.subject import SHOWN, Finding, Subject, chosen, finding
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from tests.contract import violations
from tests.unit.audit import broken, hostile
from tests.unit.environments import tracker, unruly
from tests.unit.environments.quiz import HeldOut, Quiz

ELSEWHERE = "semantic.verifier_portability"  # takes a process
QUICK = [name for name in CHECKS if name != ELSEWHERE]
LEAKS = "semantic.no_solution_leakage"


def only(kind: type[Environment], check: str) -> Finding:
    return finding(Subject(kind(), 4, "nowhere"), check)


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        (HeldOut, set()),
        (broken.Lavish, {"semantic.floor_gap", "semantic.canary_floor", "runtime.episode_isolation"}),
        (broken.Stingy, {"semantic.oracle_max"}),
        (broken.Gullible, {"semantic.canary_floor"}),
        (broken.Boundless, {"contract.answers"}),
        (broken.Moody, {"runtime.episode_determinism"}),
        (broken.Shared, {"runtime.episode_isolation", "runtime.tool_declaration_accuracy", "contract.bad_arguments"}),
        (broken.Obliging, {"runtime.tool_declaration_accuracy", "contract.bad_arguments"}),
        (broken.Careless, {LEAKS, "data.coverage"}),
        (broken.Careful, {"data.coverage"}),
        (broken.Routine, {"data.template"}),
        (broken.Leaky, {"data.same", "data.near", "data.template"}),
        (broken.Terse, set()),
        (broken.Misleading, {"data.words"}),
        (broken.Separate, {"data.template"}),
        (broken.Monotonous, {"data.variety", "semantic.canary_floor"}),
        (hostile.Numbered, {"contract.answers", "contract.digest"}),
        (hostile.Unnumbered, {"contract.episodes"}),
        (hostile.Fickle, {"contract.answers", "runtime.episode_determinism"}),
        (hostile.Brittle, {"contract.bad_arguments", "runtime.tool_declaration_accuracy"}),
        (hostile.Blind, {"contract.digest"}),
    ],
)
def test_fault_is_found_by_its_checks(kind: type[Environment], faults: set[str]) -> None:
    found = violations(kind(), 4, *QUICK)
    assert set(found) == faults, f"{kind.__doc__} {found}"
    assert all(0 < len(evidence) <= SHOWN for evidence in found.values())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (broken.Prompting, "the first message contains the right value of answer"),
        (broken.Hinting, "the tools that it offers contain the right value of answer"),
        (
            broken.Careless,
            "read_file(grader/expected.json) shows the right value of answer, which its reference does not read",
        ),
        (broken.Talkative, "the answer to a wrong value of answer contains the right one"),
    ],
)
def test_leak_is_reported_with_the_text_that_shows_it(kind: type[Environment], text: str) -> None:
    found = only(kind, LEAKS)
    assert found.number == 8 and all(line.endswith(f": {text}") for line in found.evidence), found.evidence


def test_panel_of_known_templates_is_reported() -> None:
    assert only(broken.Routine, "data.template").evidence == ["validation: 8 of 8 tasks have a template of seed"]
    assert only(broken.Uniform, "data.template").number == 0


def test_unused_tool_and_unclear_schema_are_named() -> None:
    assert {
        "no reference of the training split calls state",
        "the schema of lost is not understood: the reference #/$defs/Lost leads nowhere",
    } <= set(only(tracker.Secret, "data.coverage").evidence)


@pytest.mark.parametrize(
    ("kind", "check", "reason"),
    [
        (broken.Silent, "data.coverage", "RuntimeError: no tools today"),
        (hostile.Taskless, "semantic.oracle_max", "is not a Task"),
    ],
)
def test_check_that_raises_is_a_finding_and_the_others_go_on(kind: type[Environment], check: str, reason: str) -> None:
    found = violations(kind(), 4, check, "contract.members")
    (evidence,) = found.pop(check)
    assert reason in evidence
    assert not found or kind is hostile.Taskless


def test_part_of_a_name_chooses_checks_and_an_unknown_name_is_an_error() -> None:
    assert chosen(["data.near", "runtime"], CHECKS) == [
        key for key in CHECKS if key.startswith(("runtime", "data.near"))
    ]
    assert chosen([], CHECKS) == list(CHECKS)
    with pytest.raises(CoevolveError, match=r"--only: no check data\.varied; expected some of: .*data\.variety"):
        chosen(["data.varied"], CHECKS)


@pytest.mark.parametrize(("environment", "count"), [(Miniworld(), 10), (Quiz(), 3)])
def test_environment_keeps_the_contract(environment: Environment, count: int) -> None:
    """The second constructs its tasks."""
    assert violations(environment, count) == {}


def another(goal: str, seed: int) -> Task:
    """A task of this goal that ignores the seed."""
    return Quiz().construct(goal, random.randrange(10**9))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"construct": another}, "construct() returns different tasks for the same seed"),
        ({"goals": ("sum_2", "sum_3")}, "sum_3"),
        ({"construct": lambda goal, seed: replace(Quiz().construct(goal, seed), tags=[])}, "without this tag"),
        ({"construct": lambda goal, seed: replace(Quiz().construct(goal, seed), turns=["add"])}, "its world says"),
        ({"construct": lambda goal, seed: replace(Quiz().construct(goal, seed), reference=[[]])}, "reference"),
    ],
)
def test_wrongly_constructed_task_is_found(changed: Mapping[str, Any], said: str) -> None:
    quiz = Quiz()
    vars(quiz).update(changed)
    evidence = violations(quiz, 2, "contract.construct")["contract.construct"]
    assert any(said in line for line in evidence), evidence


@pytest.mark.parametrize(
    "changed",
    [
        {"capacity": 0},
        {"fingerprint": ""},
        {"open": lambda: object()},
        {"category": lambda task: 1},
        {"fresh_world": lambda task, seed: None},
    ],
)
def test_member_of_a_wrong_type_is_found(changed: Mapping[str, Any]) -> None:
    world = Miniworld()
    vars(world).update(changed)
    assert violations(world, 1, "contract.members")


def test_tools_that_few_tasks_call_are_checked_too() -> None:
    """The time of day is in the last of many tasks."""
    subject = Subject(unruly.Timed(), 1, f"{unruly.__name__}:Timed")
    assert [task.tools for task in subject.sample["seed"]] == [["press"], ["press", "note"]]


def test_a_task_that_does_not_repeat_is_named_once() -> None:
    found = violations(broken.Moody(), 4, *QUICK)
    assert set(found) == {"runtime.episode_determinism"}


def test_half_a_reward_names_the_failed_check() -> None:
    (line, *_) = violations(unruly.Half(), 2, "contract.episodes", "semantic.oracle_max")["semantic.oracle_max"]
    assert line.endswith(": 0.5, fails whole")
