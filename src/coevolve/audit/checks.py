"""The checks of an audit, as a table with the ids of OpenEnv's RFC 008 where it defines them.

Checks of coevolve begin with ``contract.``, ``data.`` and ``cost.``. The others are the RFC's, for worlds that are not containers:
checks of images, hosts and networks are missing. Severities are the RFC's too, except for leakage: a refusal may list the existing
values on purpose.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from statistics import fmean
from typing import Any

from coevolve.audit.finding import Found, Measured, Severity
from coevolve.audit.leaks import leaks
from coevolve.audit.overlaps import known_by_heart, near, same, templates
from coevolve.audit.players import PLAYERS, nothing
from coevolve.audit.subject import MOST_CALLS, Subject, name
from coevolve.audit.transcript import elsewhere, transcript
from coevolve.core.calls import writable
from coevolve.core.records import Candidate
from coevolve.core.success import is_success
from coevolve.core.task import ToolCall
from coevolve.environments.chains import replay
from coevolve.environments.contract import STRANGE_NAMES
from coevolve.environments.tool_schema import tool_schema
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.requests import Request
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.verify.words import Played, words_match

LIMITS = Limits(200, 10**6, 2**20, 600.0)  # of a stored episode
CANARIES = [name for name in PLAYERS if name != "nothing"]
LUCK = dict.fromkeys(
    ("repeat one call", "call everything", "another task's reference", "print everything"), 0.05
)  # share of tasks that these players may solve by chance
EXPLORATIONS = 4  # that ask for a tool before it counts as unreached
PREFIXES = 8  # most prefixes of a reference to score
VARIED = 0.5  # least share of different tasks in a split
MARGIN = 0.5  # least distance between the reward of doing nothing and the maximum


Run = Callable[[Subject], Found]


@dataclass(frozen=True, slots=True)
class Check:
    severity: Severity
    question: str
    run: Run
    remedy: str


CHECKS: dict[str, Check] = {}


def check(key: str, severity: Severity, remedy: str = "") -> Callable[[Run], Run]:
    """Adds a function to CHECKS. Its docstring begins with the question that people read."""

    def add(run: Run) -> Run:
        CHECKS[key] = Check(severity, (run.__doc__ or "").splitlines()[0], run, remedy)
        return run

    return add


@check("runtime.task_declaration_accuracy", "fail", "give each task its own id: a hash of its content")
def tasks_are_declared(subject: Subject) -> Found:
    """Does every split have tasks, each only once?"""
    ids = Counter(task.task_id for tasks in subject.splits.values() for task in tasks)
    bad = [f"{split} has no tasks" for split, tasks in subject.splits.items() if not tasks]
    bad += [f"task {one} occurs {many} times" for one, many in ids.items() if many > 1]
    return Found(not bad, {split: len(tasks) for split, tasks in subject.splits.items()}, bad)


@check("runtime.tool_declaration_accuracy", "fail", "declare the tool, or refuse it")
def tools_are_declared(subject: Subject) -> Found:
    """Are all tools of references declared, and undeclared tools refused?"""
    declared = {tool["function"]["name"] for tool in subject.tools}
    bad = [
        f"{name(task)}: its reference calls {call.name}, which is not declared"
        for tasks in subject.splits.values()
        for task in tasks
        for call in task.calls
        if call.name not in declared
    ]
    task = subject.some["seed"][0]
    for strange in STRANGE_NAMES:
        heard = subject.play(task, [[ToolCall(strange)]]).heard
        if len(heard) < 2 or not heard[1].error:
            bad.append(f"a call of {strange!r} is not refused")
    return Found(not bad, {"tools": len(declared)}, bad)


@check(
    "semantic.oracle_max", "fail", "fix the reference or the checker, or name the item in `quarantine` with the reason"
)
def oracle_max(subject: Subject) -> Found:
    """Does every reference get the maximum reward?"""
    rewards = {name(task): subject.reference(task) for task in subject.tasks}
    bad = [
        f"{who}: {one.reward:g}, fails {', '.join(key for key, passed in one.checks.items() if not passed) or one.broken}"
        for who, one in rewards.items()
        if one.reward < 1.0
    ]
    return Found(not bad, {"tasks": len(rewards), "lowest reward": min(one.reward for one in rewards.values())}, bad)


@check("semantic.floor_gap", "fail", "look for conditions that are true from the start")
def floor_gap(subject: Subject) -> Found:
    """Is the reward of doing nothing well below the maximum?"""
    rewards = {name(task): subject.play(task, nothing(subject, task).calls).reward for task in subject.tasks}
    bad = [f"{who}: doing nothing gets {reward:g}" for who, reward in rewards.items() if reward > 1.0 - MARGIN]
    measured: Measured = {"mean of doing nothing": fmean(rewards.values()), "highest": max(rewards.values())}
    return Found(not bad, measured, bad)


@check("semantic.canary_floor", "fail", "let the checker test everything that the task asks for")
def canary_floor(subject: Subject) -> Found:
    """Do players without skill solve nothing?

    ``LUCK`` allows a share to players whose calls or answers may be right by chance.
    """
    measured: Measured = {}
    bad = []
    for who in CANARIES:
        rewards = []
        solved = []
        for task in subject.tasks:
            if (play := PLAYERS[who](subject, task)) is not None:
                rewards.append(subject.play(task, play.calls, play.says).reward)
                if is_success(rewards[-1]):
                    solved.append(f"{name(task)}: solved by “{who}”")
        measured[who] = fmean(rewards) if rewards else None
        bad += solved if len(solved) > LUCK.get(who, 0.0) * len(rewards) else []
    return Found(not bad, measured, bad)


@check("runtime.reward_well_formed", "fail", "scale the reward")
def well_formed(subject: Subject) -> Found:
    """Are rewards finite and between 0 and 1?

    Also measures how finely they grade.
    """
    seen: Counter[float] = Counter()
    bad = []
    for task in subject.tasks:
        calls = subject.environment.reference(task)
        flat = [(turn, row) for turn, made in enumerate(calls) for row in range(len(made) + 1)][:PREFIXES]
        for turn, row in flat:
            one = subject.play(task, [*calls[:turn], calls[turn][:row], *([] for _ in calls[turn + 1 :])])
            seen[round(one.reward, 6)] += 1
            if one.broken or not 0.0 <= one.reward <= 1.0:
                bad.append(f"{name(task)}: {one.broken or f'a reward of {one.reward}'}")
    between = sum(many for reward, many in seen.items() if 0.0 < reward < 1.0)
    measured: Measured = {"different rewards": len(seen), "share between 0 and 1": between / max(seen.total(), 1)}
    return Found(not bad, measured, bad)


@check("contract.answers", "fail", "see `Session` in environments/environment.py for what each method returns")
def answers_fit(subject: Subject) -> Found:
    """Are observations, digests and the ends of episodes of the right type and size?"""
    bad = []
    for task in subject.tasks:
        plays = subject.reference(task), subject.play(task, nothing(subject, task).calls)
        bad += [f"{name(task)}: {flaw}" for flaw in dict.fromkeys(flaw for one in plays for flaw in one.flaws)]
    return Found(not bad, {}, bad)


@check("contract.bad_arguments", "warn", "return an error turn: an exception ends the agent's episode with score 0")
def bad_arguments_are_refused(subject: Subject) -> Found:
    """Are bad arguments refused without breaking the session?

    Calls have unknown, missing and empty arguments.
    """
    calls = [call for tool in subject.tools for call in _misused(tool["function"])]
    bad = []
    for task, start in zip(cycle(subject.tasks), range(0, len(calls), MOST_CALLS), strict=False):
        left = calls[start : start + MOST_CALLS]
        while left:
            played = subject.play(task, [left])
            answered = len(played.heard) - 1
            if played.broken:
                call = left[min(answered, len(left) - 1)]
                bad.append(
                    f"{name(task)}: {call.name}({json.dumps(call.arguments)}) breaks the session: {played.broken}"
                )
            left = left[answered + bool(played.broken) :]
    return Found(not bad if calls else None, {"calls": len(calls)}, bad)


def _misused(function: Mapping[str, Any]) -> list[ToolCall]:
    keys = tool_schema(function).flat()["properties"]
    arguments: list[dict[str, Any]] = [{}, {"no_such_argument": 1}, *({key: None} for key in keys)]
    return [ToolCall(function["name"], one) for one in arguments]


@check("contract.digest", "warn", "hash the whole state that calls can change")
def digests_differ(subject: Subject) -> Found:
    """Does the digest show the changes of references?

    Verification uses the digest to see what a call changed.
    """
    changed = []
    with closing(subject.environment.open()) as session:
        for task in subject.tasks:
            changed.append(any(replay(session, task, subject.environment.reference(task))[1]))
    bad = [] if any(changed) or not changed else ["digest() is the same before and after every reference"]
    return Found(
        not bad,
        {"references": len(changed), "share that changes nothing": changed.count(False) / max(len(changed), 1)},
        bad,
    )


@check("runtime.episode_determinism", "fail", "derive all randomness from the task")
def deterministic(subject: Subject) -> Found:
    """Do the same calls get the same answers and score?"""
    bad = []
    for task in subject.tasks:
        one, other = subject.reference(task), subject.reference(task)
        if (one.said, one.reward, one.digest) != (other.said, other.reward, other.digest):
            bad.append(f"{name(task)}: a second run of the reference differs")
    return Found(not bad, {"tasks": sum(map(len, subject.some.values()))}, bad)


@check(
    "semantic.verifier_portability",
    "fail",
    "look for loops over sets, for hash() and clocks, and for caches that differ",
)
def portable(subject: Subject) -> Found:
    """Does another process have the same tasks, answers and scores?

    The other process has another hash seed.
    """
    here, there = transcript(subject), elsewhere(subject.place, subject.count)
    bad = [f"{who} differs in another process" for who in here if here[who] != there.get(who)]
    return Found(not bad, {"tasks": len(here)}, bad)


@check(
    "semantic.replayability",
    "fail",
    "let all answers depend only on the calls",
)
def replayable(subject: Subject) -> Found:
    """Does a stored episode get the same answers and the same score again?"""
    policy, bad = ReferencePolicy(subject.environment), []
    for task in subject.tasks:  # one at a time, because an episode keeps all its answers
        (episode,) = rollout(policy, subject.environment, [RolloutRequest(task, 0)], LIMITS)
        stored, again = episode.trajectory, subject.reference(task)
        answers = [writable(heard.content) for heard in again.heard[1:] if heard.role == "tool"]
        if [call.observation for call in stored.calls] != answers[: len(stored.calls)]:
            bad.append(f"{name(task)}: the world answers differently")
        elif stored.score != again.reward:
            bad.append(f"{name(task)}: the score was {stored.score:g} and is {again.reward:g} now")
    return Found(not bad, {"tasks": sum(map(len, subject.some.values()))}, bad)


@check("runtime.episode_isolation", "fail", "keep no state in the class or the module")
def isolated(subject: Subject) -> Found:
    """Are sessions independent of each other?"""
    bad = []
    for task in subject.tasks:
        with subject.idle(task) as idle:
            before = idle.digest()
            subject.reference(task)
            if idle.digest() != before or is_success(idle.score().reward):
                bad.append(f"{name(task)}: another session changed its world")
    return Found(not bad, {}, bad)


check(
    "semantic.no_solution_leakage",
    "warn",
    "remove the value from the text, or let the reference look it up; describe an error, not the right value",
)(leaks)


check("data.same", "fail", "drop one task of each pair, or give it another goal")(same)


check("data.near", "warn", "drop one task of each pair, or give it another goal or other words")(near)


check(
    "data.template",
    "warn",
    "hold out families or chains of tools for a panel; until then success shows skill at known kinds only",
)(templates)


@check("data.words", "fail", "fix the words or the reference: the reward punishes an agent that understands the task")
def words(subject: Subject) -> Found:
    """Do instructions match their references, as far as the environment's language can decide?

    See the gate `words_match`.
    """
    bad, checked = [], 0
    with closing(subject.environment.open()) as session:
        for task in subject.tasks:
            played = Played(*replay(session, task))
            gate = words_match(subject.environment, session, Candidate(task.task_id, task, []), played, values=False)
            checked += gate.passed is not None
            bad += [f"{name(task)}: {gate.reason}"] if gate.passed is False else []
    return Found(not bad, {"tasks": sum(map(len, subject.some.values())), "checked": checked}, bad)


@check("data.variety", "warn", "add more kinds of tasks: an agent can memorize tasks that differ only in their world")
def variety(subject: Subject) -> Found:
    """Do the tasks of a split differ?

    Tasks that differ only in their worlds count as the same.
    """
    shares = {}
    for split, tasks in subject.splits.items():
        kinds = {known_by_heart(task) for task in tasks}
        shares[split] = len(kinds) / max(len(tasks), 1)
    bad = [f"{split}: {share:.0%} of the tasks are different" for split, share in shares.items() if share < VARIED]
    return Found(not bad, dict(shares), bad)


@check(
    "data.coverage", "advisory", "add tasks, or `examples` to schemas; `explore.guidance: coverage` explores the rest"
)
def coverage(subject: Subject) -> Found:
    """Does the training split use every tool, and does exploration reach it?

    The scripted explorer draws values from schemas, answers and references, unless the environment constructs its tasks.
    """
    used = {call.name for task in subject.splits["seed"] for call in task.calls}
    declared = {tool["function"]["name"]: tool_schema(tool["function"]) for tool in subject.tools}
    unused = sorted(set(declared) - used)
    explorer, missed = ScriptedExplorer(subject.environment, subject.known, Explore()), defaultdict(list)
    for one in [] if subject.environment.goals else sorted(set(declared) - {subject.known.terminal}):
        tasks = zip(range(EXPLORATIONS), cycle(subject.some["seed"]), strict=False)
        asked = [Request("", 0, None, task, task.world, None, [], [], {}, seed, [one]) for seed, task in tasks]
        if not any(found.calls for found in explorer.explore(asked)):
            missed[explorer.reasons.get(one, "its calls are not offered, find nothing or end the episode")].append(one)
    bad = [f"no exploration of {EXPLORATIONS} reached {', '.join(names)}: {why}" for why, names in missed.items()]
    bad += [f"the schema of {one} is not understood: {remark}" for one in declared for remark in declared[one].remarks]
    bad += [f"no reference of the training split calls {one}" for one in unused]
    return Found(not bad, {"tools": len(declared), "share used": 1.0 - len(unused) / max(len(declared), 1)}, bad)


@check("data.quarantine", "advisory")
def quarantined_is_known(subject: Subject) -> Found:
    """How many tasks are unsolvable?

    Readers must know a ceiling below 1.
    """
    total = sum(map(len, subject.splits.values()))
    bad = subject.bad()
    return Found(True, {"tasks in quarantine": len(bad), "ceiling": 1.0 - len(bad) / max(total, 1)})


@check("cost.requests", "advisory")
def costs(subject: Subject) -> Found:
    """How long do a reset, a step and a score take?"""
    for task in subject.tasks if not subject.seconds else ():
        subject.reference(task)
    return Found(True, {f"{kind}, milliseconds": round(cost, 3) for kind, cost in sorted(subject.costs().items())})
