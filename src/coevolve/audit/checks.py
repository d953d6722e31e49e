"""The checks of `coevolve env check`, as a table with the ids of OpenEnv's RFC 008 where it defines them.

Ids that begin with ``contract.`` and ``data.`` are coevolve's. The others are the RFC's, for worlds that are not containers. The
severities are the RFC's too, except for leakage: a refusal may list the existing values on purpose.

A check yields a line of evidence for each violation. Every exception of the environment is a violation.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from functools import reduce
from itertools import combinations, cycle
from reprlib import repr as shortened
from typing import Annotated, Any

from pydantic import PositiveInt, StringConstraints, TypeAdapter, ValidationError

from coevolve.audit.leaks import leaks
from coevolve.audit.players import PLAYERS
from coevolve.audit.subject import CHECKS, Subject, check, name
from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import interrupted, named
from coevolve.core.plugins import place_of
from coevolve.core.records import Candidate
from coevolve.core.similarity import Index
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.core.trajectories import INTERRUPTED, Trajectory
from coevolve.environments.chains import replay
from coevolve.environments.environment import Phrasebook, Session
from coevolve.environments.registry import make
from coevolve.environments.tool_schema import tool_schema
from coevolve.environments.worker_main import end_with
from coevolve.rollout import UNANSWERED
from coevolve.stages.verify.gates import another
from coevolve.stages.verify.library import solution_of, text_of
from coevolve.words.words_match import words_match

LUCK = 0.05  # share of tasks that a player may solve by chance, if it makes calls or answers that could be right
LUCKLESS = ("end_at_once", "echo_the_instruction")
PREFIXES = 8  # most prefixes of a reference to score
MARGIN = 0.5  # least distance between the reward of doing nothing and the maximum
VARIED = 0.5  # least share of different tasks in a split
NEAR = 0.9  # similarity from which two instructions are near-duplicates
NEW = 0.5  # least share of tasks with a new template in a panel that measures new templates
CLOCK = 1.1  # seconds between two plays, so that a clock shows another second
FAR = ("EAST-14", "WEST+12")  # time zones of which one always has another date than any zone
STRANGE_NAMES = ("no_such_tool", "__class__", "__init__", "", "../../etc/passwd")
DEEP: list[object] = reduce(lambda inner, _: [inner], range(990), [])  # json.dumps rejects it on some Python versions
STRANGE_VALUES: tuple[object, ...] = (None, [], {}, [[[[]]]], DEEP, float("nan"), 10**400, "\ud800", "x" * 10**6, True)
MEMBERS: dict[str, Any] = {
    **dict.fromkeys(("name", "fingerprint"), Annotated[str, StringConstraints(min_length=1)]),
    **dict.fromkeys(("panels", "more_splits", "goals"), tuple[str, ...]),
    "capacity": PositiveInt | None,
    "quarantine": dict[str, str],
    "phrasebook": Phrasebook,
}


@check("contract.episodes", "fail", "repair what ends these episodes; the other checks leave their tasks out")
def episodes_end(subject: Subject) -> Iterator[str]:
    """Do the references play to their end, in threads and beside each other, as the loop plays them?"""
    _ = subject.tools  # no other check can do without them
    broken = [(task, one) for task, one in subject.episodes if one.stop_reason in INTERRUPTED]
    for _, one in broken:
        subject.raised.setdefault(one.end[1].removeprefix(f"{one.failure}: "), "contract.episodes")
    for note in interrupted(one.end for _, one in subject.episodes):
        yield f"{note}; the first is {name(broken[0][0])}{_where(subject, *broken[0])}"


def _where(subject: Subject, task: Task, episode: Trajectory) -> str:
    """The line that ends the episode of a reference, if it does so again."""
    if episode.end[1].endswith(UNANSWERED.format(subject.max_seconds)):
        return ""
    try:
        return subject.reference(task).where
    except (Exception, SystemExit) as error:
        return place_of(error)


@check("contract.members", "fail", "see `Environment` in environments/environment.py for each attribute and method")
def members_fit(subject: Subject) -> Iterator[str]:
    """Do attributes and answers about tasks have the right types, and can worlds start?"""
    environment = subject.environment
    for key, kind in MEMBERS.items():
        value = getattr(environment, key)
        try:
            TypeAdapter(kind).validate_python(dict(value) if isinstance(value, Mapping) else value, strict=True)
        except ValidationError as error:
            yield f"{key}: {error.errors()[0]['msg']}"
    with closing(environment.open()) as session:
        if not isinstance(session, Session):
            yield "open() does not return a Session"
    for task in subject.tasks:
        for ask in (environment.category, environment.scenario):
            if not isinstance(said := ask(task), str) or not said:
                yield f"{name(task)}: {ask.__name__}() returns {said!r}, expected a text"
        world = environment.fresh_world(task, 0)
        if not isinstance(world, dict) or world != environment.fresh_world(task, 0):
            yield f"{name(task)}: fresh_world() returns no dict, or another world for the same seed"
            continue
        with closing(environment.open()) as session:
            session.reset(replace(task, world=world))


@check("contract.answers", "fail", "see `Session` in environments/environment.py for what each method returns")
def answers_fit(subject: Subject) -> Iterator[str]:
    """Are observations, digests, ends of episodes and rewards as the contract says, after each part of a reference?"""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for task in subject.tasks:
        calls = subject.environment.reference(task)
        parts = [(turn, row) for turn, made in enumerate(calls) for row in range(len(made) + 1)]
        for turn, row in [*parts[:PREFIXES], parts[-1]]:
            one = subject.play(task, [*calls[:turn], calls[turn][:row], *([] for _ in calls[turn + 1 :])])
            for flaw in [*one.flaws, *filter(None, [one.broken + one.where])]:
                found[flaw][name(task)] = None
            if one.broken:
                subject.raised.setdefault(one.broken, "contract.answers")
    for flaw, tasks in found.items():
        yield f"{next(iter(tasks))}{f' and {len(tasks) - 1} more' if len(tasks) > 1 else ''}: {flaw}"


@check("contract.bad_arguments", "fail", "return an error turn: an exception ends the agent's episode with score 0")
def bad_arguments_are_refused(subject: Subject) -> Iterator[str]:
    """Are bad arguments refused without an exception, and unknown ones without a change of the world?"""
    unknown: list[dict[str, Any]] = [{"no_such_argument": value} for value in STRANGE_VALUES]
    right = {call.name: call.arguments for task in subject.tasks for call in task.calls}
    for task, function in zip(cycle(subject.tasks), (tool["function"] for tool in subject.tools), strict=False):
        flat = tool_schema(function).flat()
        keys, closed = flat["properties"], flat.get("additionalProperties", False) is False
        known = right.get(function["name"], {})
        wrong = ({**known, key: other} for key, value in known.items() if (other := another(value)) is not None)
        with closing(subject.environment.open()) as session:
            session.reset(task)
            for arguments in [*unknown, {}, *({key: None} for key in keys), *wrong]:
                said, before = f"{function['name']}({shortened(arguments)})", session.digest()
                try:
                    heard = session.step(ToolCall(function["name"], arguments))
                except (Exception, SystemExit) as error:
                    yield f"{said} breaks the session: {named(error)}"
                    break
                if closed and "no_such_argument" in arguments and not (heard.error and session.digest() == before):
                    yield f"{said} is not refused, or changes the world"
                if heard.done:
                    session.reset(task)


@check("contract.digest", "warn", "hash the whole state that calls can change: verification sees changes by it")
def digests_differ(subject: Subject) -> Iterator[str]:
    """Does the digest show the changes of references?"""
    with closing(subject.environment.open()) as session:
        references = ((task, subject.environment.reference(task)) for task in subject.tasks)
        if not any(any(replay(session, task, reference).changed) for task, reference in references):
            yield "digest() is the same before and after every reference"


@check("contract.construct", "fail", "derive the task from the goal and the seed, and the instruction from its world")
def constructed_tasks_are_tasks(subject: Subject) -> Iterator[str]:
    """Are constructed tasks the same for the same seed, tagged, worded by their world, and solved by their reference?"""
    environment, count = subject.environment, subject.count
    for goal in dict.fromkeys(environment.goals[:count] + environment.goals[-count:]):
        task = environment.construct(goal, count)
        if task != environment.construct(goal, count):
            yield f"{goal}: construct() returns different tasks for the same seed"
        if goal not in task.tags:
            yield f"{goal}: construct() returns a task without this tag"
        if (said := subject.nothing(replace(task, turns=[""])).said[0]) != task.turns[0]:
            yield f"{goal}: its world says {said[:80]!r}, its instruction is {task.turns[0][:80]!r}"
        if not is_success(subject.play(task, task.reference).reward):
            yield f"{goal}: the reference of a constructed task fails"


@check("runtime.task_declaration_accuracy", "fail", "give each task its own id: a hash of its content")
def tasks_are_declared(subject: Subject) -> Iterator[str]:
    """Does every split have tasks, each only once?"""
    yield from (f"{split} has no tasks" for split, tasks in subject.splits.items() if not tasks)
    ids = Counter(task.task_id for tasks in subject.splits.values() for task in tasks)
    yield from (f"task {one} occurs {many} times" for one, many in ids.items() if many > 1)


@check("runtime.tool_declaration_accuracy", "fail", "declare each tool once, and refuse all others")
def tools_are_declared(subject: Subject) -> Iterator[str]:
    """Are the tools of references declared, each once, and undeclared tools refused without a change of the world?"""
    declared = Counter(tool["function"]["name"] for tool in subject.tools)
    yield from (f"tools() lists {one} {many} times" for one, many in declared.items() if many > 1)
    for task in (task for tasks in subject.splits.values() for task in tasks):
        for call in task.calls:
            if call.name not in declared:
                yield f"{name(task)}: its reference calls {call.name}, which is not declared"
    for strange in STRANGE_NAMES:
        with closing(subject.environment.open()) as session:
            session.reset(subject.some["seed"][0])
            before = session.digest()
            if not session.step(ToolCall(strange)).error or session.digest() != before:
                yield f"a call of {strange!r} is not refused, or changed the world"


@check("runtime.episode_determinism", "fail", "derive all randomness and every time from the task")
def deterministic(subject: Subject) -> Iterator[str]:
    """Do the same calls get the same answers and score?"""
    for task in subject.tasks:
        if subject.reference(task).identity != subject.reference(task).identity:
            subject.unsteady.add(task.task_id)
            yield f"{name(task)}: a second run of the reference differs"


@check("runtime.episode_isolation", "fail", "keep no state in the class or the module")
def isolated(subject: Subject) -> Iterator[str]:
    """Are sessions independent of each other?"""
    for task in subject.tasks:
        with closing(subject.environment.open()) as idle:
            idle.reset(task)
            before = idle.digest()
            subject.reference(task)
            if idle.digest() != before or is_success(idle.score().reward):
                yield f"{name(task)}: another session changed its world"


@check("semantic.oracle_max", "fail", "fix the reference or the checker, or put the item into `quarantine`")
def oracle_max(subject: Subject) -> Iterator[str]:
    """Does every reference get the maximum reward?"""
    for task, one in subject.episodes:
        if one.stop_reason not in INTERRUPTED and task.task_id not in subject.unsteady and one.score < 1.0:
            failed = ", ".join(key for key, passed in one.checks.items() if not passed)
            yield f"{name(task)}: {one.score:g}, {f'fails {failed}' if failed else f'ends as {one.stop_reason}'}"


@check("semantic.floor_gap", "fail", "look for conditions that are true from the start")
def floor_gap(subject: Subject) -> Iterator[str]:
    """Is the reward of doing nothing well below the maximum?"""
    for task in subject.tasks:
        if (reward := subject.nothing(task).reward) > 1.0 - MARGIN:
            yield f"{name(task)}: doing nothing gets {reward:g}"


@check("semantic.canary_floor", "fail", "let the checker test everything that the task asks for")
def canary_floor(subject: Subject) -> Iterator[str]:
    """Do players without skill solve nothing?"""
    for player in PLAYERS:
        plays = [(task, play) for task in subject.tasks if (play := player(subject, task)) is not None]
        solved = [name(task) for task, play in plays if is_success(subject.play(task, *play).reward)]
        if len(solved) > (0.0 if player.__name__ in LUCKLESS else LUCK) * len(plays):
            yield from (f"{one}: solved by “{player.__name__.replace('_', ' ')}”" for one in solved)


def transcript(subject: Subject) -> dict[str, str]:
    """For each checked task, a hash of its words and of the episode of its reference."""
    steady = (task for task in subject.tasks if task.task_id not in subject.unsteady)
    return {name(task): f"{task.turns} {subject.reference(task).identity}" for task in steady}


@check("semantic.verifier_portability", "fail", "look for clocks, loops over sets, hash(), and caches that differ")
def portable(subject: Subject) -> Iterator[str]:
    """Does another process, with another hash seed, at another time of day, have the same tasks, answers and scores?"""
    began, here = time.monotonic(), transcript(subject)
    command = [sys.executable, "-m", __name__, subject.place, str(subject.count), str(os.getpid())]
    other = {
        "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2",
        "TZ": next(zone for zone in FAR if _today(zone) != date.today()),
    }
    time.sleep(max(CLOCK - (time.monotonic() - began), 0.0))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **other}, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
        raise CoevolveError(f"{subject.place} does not open in another process: {''.join(said)}")
    there = json.loads(done.stdout.splitlines()[-1])
    yield from (f"{who} differs in another process" for who, one in here.items() if there.get(who) != one)


def _today(zone: str) -> date:
    """The date in a zone of FAR."""
    return datetime.now(timezone(timedelta(hours=-float(zone[4:])))).date()


check("semantic.no_solution_leakage", "warn", "remove the value from the text, or let the reference look it up")(leaks)


@check("data.same", "fail", "drop one task of each pair, or give it another goal")
def same(subject: Subject) -> Iterator[str]:
    """Are tasks of different splits different, by world and reference, and by words and reference?"""
    for (one, tasks), (other, others) in combinations(subject.splits.items(), 2):
        known = {key: task for task in tasks for key in (solution_of(task), _by_heart(task))}
        for task in others:
            if first := known.get(solution_of(task)) or known.get(_by_heart(task)):
                yield f"{other} {task.task_id} is the same as {one} {first.task_id}"


@check("data.near", "warn", "drop one task of each pair, or give it another goal or other words")
def near(subject: Subject) -> Iterator[str]:
    """Do instructions of different splits differ clearly, if the world or the reference is the same?"""
    for (one, tasks), (other, others) in combinations(subject.splits.items(), 2):
        indexes: dict[str, Index] = defaultdict(lambda: Index(NEAR))
        for task in tasks:
            for key in _memorized(task):
                indexes[key].add(task.task_id, text_of(task))
        for task in others:
            like = (indexes[key].nearest(text_of(task)) for key in _memorized(task) if key in indexes)
            if first := next(filter(None, like), None):
                yield f"{other} {task.task_id} is {first[1]:.2f} like {one} {first[0]}"


def _by_heart(task: Task) -> str:
    """The parts of a task that an agent could memorize to solve it in any world: its words and the calls that solve it."""
    return repr((task.turns, [[call.name, call.arguments] for call in task.calls]))


def _memorized(task: Task) -> tuple[str, str]:
    """The world of a task and its reference. An agent that memorized either knows other tasks with the same words."""
    return json.dumps(task.world, sort_keys=True), repr([[call.name, call.arguments] for call in task.calls])


@check("data.template", "warn", "hold out families or chains of tools for a panel")
def templates(subject: Subject) -> Iterator[str]:
    """Does some panel ask for kinds of tasks that training lacks?

    A panel of known templates asks for new values in them, which is a fair question. But if no panel asks another question, an
    agent that has memorized the templates looks like an agent that has learned the tools. If all tasks have one template, there
    is nothing to hold out.
    """
    kinds = {split: [template(task) for task in tasks] for split, tasks in subject.splits.items() if tasks}
    seed = set(kinds.pop("seed"))
    known = {split: sum(kind in seed for kind in panel) for split, panel in kinds.items()}
    several = len(seed.union(*kinds.values())) > 1
    if several and all(known[split] > (1.0 - NEW) * len(panel) for split, panel in kinds.items()):
        for split, panel in kinds.items():
            yield f"{split}: {known[split]} of {len(panel)} tasks have a template of seed"


def template(task: Task) -> str:
    """The family of a task, and the tools of its reference in order, turn by turn."""
    return repr((task.family, [[call.name for call in turn] for turn in task.reference]))


@check("data.words", "fail", "fix the words or the reference: the reward punishes an agent that understands the task")
def words(subject: Subject) -> Iterator[str]:
    """Do instructions match their references, as far as the environment's language can decide?

    See the gate `words_match`.
    """
    with closing(subject.environment.open()) as session:
        for task in subject.tasks:
            candidate, played = Candidate(task.task_id, task, []), replay(session, task)
            gate = words_match(subject.environment, session, candidate, played, values=False)
            if gate.passed is False:
                yield f"{name(task)}: {gate.reason}"


@check("data.variety", "warn", "add more kinds of tasks: an agent can memorize tasks that differ only in their world")
def variety(subject: Subject) -> Iterator[str]:
    """Do the tasks of a split differ in more than their worlds?"""
    for split, tasks in subject.splits.items():
        share = len(set(map(_by_heart, tasks))) / max(len(tasks), 1)
        if share < VARIED:
            yield f"{split}: {share:.0%} of the tasks are different"


@check("data.coverage", "advisory", "add tasks, `examples` to schemas, or set `explore.guidance: coverage`")
def coverage(subject: Subject) -> Iterator[str]:
    """Does the training split use every tool, and are the schemas of all tools understood?"""
    used = {call.name for task in subject.splits["seed"] for call in task.calls}
    for function in (tool["function"] for tool in subject.tools):
        for remark in tool_schema(function).remarks:
            yield f"the schema of {function['name']} is not understood: {remark}"
        if function["name"] not in used:
            yield f"no reference of the training split calls {function['name']}"


__all__ = ["CHECKS"]  # complete once this module is imported

if __name__ == "__main__":  # the other process of `portable`
    end_with(int(sys.argv[3]))
    print(json.dumps(transcript(Subject(make(sys.argv[1]), int(sys.argv[2]), sys.argv[1]))))
