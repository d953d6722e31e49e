"""BFCL: our score equals the official checker's, and sessions share neither state nor the package's globals."""

import decimal
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import rng_for
from coevolve.core.success import is_success
from coevolve.core.task import Score, Task, ToolCall
from coevolve.environments.registry import make
from coevolve_environments.bfcl.multi_turn import BFCL, CATEGORIES, QUARANTINE, BFCLSession
from tests.unit.environments import make_or_skip

WORLD = make_or_skip("bfcl")
HERE = BFCL()  # in this process, where an episode takes a fifth of the time

SPLITS = ("seed", *WORLD.panels)
TASKS = [task for split in (*SPLITS, "quarantine") for task in WORLD.tasks(split)]
Turns = list[list[ToolCall]]


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    """The package's own executor, our reference, leaves the precision of its last call in place for all later code."""
    import mpmath

    with decimal.localcontext(), mpmath.workdps(15):
        yield


def ours(task: Task, turns: Turns) -> bool:
    return is_success(judged(task, turns).reward)


def judged(task: Task, turns: Turns) -> Score:
    session = HERE.open()
    session.reset(task)
    for turn in turns:
        for call in turn:
            session.step(call)
        session.say("")
    score = session.score()
    session.close()
    return score


def spelled(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


def official(task: Task, turns: Turns, run: str) -> bool:
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    entry = {**task.world, "id": task.world["id"]}
    truth = [[spelled(call) for call in turn] for turn in task.reference]
    model = [[[spelled(call)] for call in turn] for turn in turns]
    found = multi_turn_checker(model, truth, entry, WORLD.category(task), run)
    for name in [name for name in vars(multi_turn_utils) if name.startswith(run)]:
        delattr(multi_turn_utils, name)
    return bool(found["valid"])


def variants(task: Task) -> Iterator[tuple[str, Turns]]:
    """The answer, and eleven variants that are wrong or almost wrong."""
    rng = rng_for("bfcl variants", task.task_id)
    places = [(t, c) for t, turn in enumerate(task.reference) for c in range(len(turn))]

    def copied() -> Turns:
        return [list(turn) for turn in task.reference]

    yield "truth", copied()
    yield "nothing", [[] for _ in task.reference]
    for _ in range(3):
        turns = copied()
        t, c = rng.choice(places)
        call = turns[t][c]
        if call.arguments:
            key = rng.choice(sorted(call.arguments))
            value = call.arguments[key]
            wrong = value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else "wrong"
            turns[t][c] = ToolCall(call.name, {**call.arguments, key: wrong})
            yield "corrupted", turns
    for _ in range(3):
        turns = copied()
        t, c = rng.choice(places)
        del turns[t][c]
        yield "dropped", turns
    for _ in range(2):
        turns = copied()
        t, c = rng.choice(places)
        turns[t].insert(c, turns[t][c])
        yield "duplicated", turns
    for _ in range(2):
        turns = copied()
        t, c = rng.choice(places)
        other = rng.choice(TASKS)
        extra = [
            call
            for turn in other.reference
            for call in turn
            if other.world["involved_classes"] == task.world["involved_classes"]
        ]
        turns[t].insert(c, rng.choice(extra) if extra else rng.choice([x for turn in task.reference for x in turn]))
        yield "extra", turns


@pytest.mark.parametrize("category", CATEGORIES)
def test_score_equals_the_official_checkers(category: str) -> None:
    """Over every fourth of the 200 items of the category."""
    whole = [task for task in TASKS if WORLD.category(task) == category]
    assert len(whole) == 200
    tasks = whole[::4]
    compared: dict[str, list[bool]] = {}
    disagreements = []
    for number, task in enumerate(tasks):
        for row, (kind, turns) in enumerate(variants(task)):
            mine, theirs = ours(task, turns), official(task, turns, f"run{number}x{row}")
            compared.setdefault(kind, []).append(theirs)
            if mine != theirs:
                disagreements.append((task.world["id"], kind, mine, theirs))
    assert not disagreements
    assert sum(map(len, compared.values())) >= 500
    assert all(compared["truth"])
    assert not any(compared["nothing"])
    for kind in ("dropped", "corrupted"):
        assert not all(compared[kind])


def test_scenario_is_in_one_split() -> None:
    splits = {split: {task.world["id"] for task in WORLD.tasks(split)} for split in SPLITS}
    quarantined = sum(int(name.rsplit("_", 1)[1]) % 2 == 0 for name in QUARANTINE)
    sizes = {split: len(ids) for split, ids in splits.items()}
    assert sizes == {"seed": 400 - quarantined, "validation": 200, "test": 200}
    scenarios = [{name.rsplit("_", 1)[1] for name in ids} for ids in splits.values()]
    assert sum(map(len, scenarios)) == len(set.union(*scenarios))


def test_missing_functions_appear_at_their_turn() -> None:
    task = next(task for task in TASKS if WORLD.category(task) == "multi_turn_miss_func")
    (turn, names), *_ = task.world["missed_function"].items()
    session = WORLD.open()
    offers = [session.reset(task)]
    for calls in task.reference:
        for call in calls:
            session.step(call)
        offers.append(session.say(""))
    at_first = {schema["function"]["name"] for schema in offers[0].tools or []}
    then = {schema["function"]["name"] for schema in offers[int(turn)].tools or []}
    assert at_first.isdisjoint(names)
    assert then == at_first | set(names)
    assert all(name in offers[int(turn)].content for name in names)
    assert [number for number, offer in enumerate(offers) if offer.tools] == [0, int(turn)]


def test_strict_is_a_check_of_its_own() -> None:
    task = next(task for task in TASKS if WORLD.category(task) == "multi_turn_miss_param")
    refusing = next(number for number, calls in enumerate(task.reference) if not calls)
    assert judged(task, task.reference).checks["strict"]
    curious = [list(calls) for calls in task.reference]
    curious[refusing].append(ToolCall("pwd"))
    assert is_success(judged(task, curious).reward)
    assert not judged(task, curious).checks["strict"]
    doubled = [list(calls) for calls in task.reference]
    where = next(turn for turn in doubled if any(call.name == "grep" for call in turn))
    where.append(where[-1])
    assert judged(task, doubled).checks["strict"], "a look twice changes nothing"


def test_model_text_is_never_evaluated(tmp_path: object) -> None:
    task = next(task for task in TASKS if "GorillaFileSystem" in task.world["involved_classes"])
    session = HERE.open()
    session.reset(task)
    before = session.digest()
    for name in ("__class__", "_load_scenario", "__init__", "eval", "ls.__globals__", "os.system"):
        assert session.step(ToolCall(name, {})).error
    turn = session.step(ToolCall("mkdir", {"dir_name": "__import__('os').system('true')"}))
    assert turn.error or "__import__" in json.dumps(session._instances["GorillaFileSystem"].root.contents, default=str)
    session.reset(task)
    assert session.digest() == before


def test_more_than_twenty_replies_in_a_turn_fail() -> None:
    task = TASKS[0]
    for replies in (20, 21):
        session = WORLD.open()
        session.reset(task)
        for _ in range(replies - len(task.reference[0])):
            session.begin_reply()
            assert not session.step(ToolCall("pwd")).done
        for call in task.reference[0]:
            session.begin_reply()
            turn = session.step(call)
        assert turn.done == (replies > 20)
        assert session.score().checks["steps"] == (replies == 20)


def involving(group: str, category: str = "multi_turn_base") -> Task:
    return next(t for t in TASKS if group in t.world["involved_classes"] and WORLD.category(t) == category)


def test_precision_applies_only_to_its_call() -> None:
    import mpmath

    before = decimal.getcontext().prec, mpmath.mp.dps
    session = HERE.open()
    session.reset(involving("MathAPI"))
    for name, value in (("logarithm", {"value": 2, "base": 10}), ("square_root", {"number": 2})):
        assert len(session.step(ToolCall(name, {**value, "precision": 50})).content) > 50
        assert (decimal.getcontext().prec, mpmath.mp.dps) == before


def test_cards_of_a_long_context_belong_to_one_session() -> None:
    task = involving("TravelAPI", "multi_turn_long_context")
    names = ["client_id", "client_secret", "refresh_token", "grant_type", "user_first_name", "user_last_name"]

    def entered() -> tuple[BFCLSession, dict[str, str]]:
        session = HERE.open()
        session.reset(task)
        token = json.loads(session.step(ToolCall("authenticate_travel", dict.fromkeys(names, "x"))).content)
        return session, {"access_token": token["access_token"], "card_id": "1234567812345678"}

    def balance(session: BFCLSession, card: dict[str, str]) -> str:
        return session.step(ToolCall("get_credit_card_balance", card)).content

    before = balance(*entered())
    session, card = entered()
    session.step(ToolCall("set_budget_limit", {"access_token": card["access_token"], "budget_limit": 0}))
    trip = {"travel_date": "2024-11-11", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "economy"}
    assert not session.step(ToolCall("book_flight", {**card, **trip})).error
    assert balance(session, card) != before
    assert balance(*entered()) == before


def test_missing_installation_error_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['bfcl_eval'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the worker
    with pytest.raises(CoevolveError, match="coevolve env install bfcl"):
        make("bfcl")
