"""The gates that a candidate must pass, in order. Each is a named outcome with its reason.

The gate `readable` depends only on the line. The environment decides the next eight gates: they run the candidate's calls and
variants of them, and compare its words with its calls. The existing tasks decide the last three.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import parse, strict
from coevolve.core.records import Candidate, Gate
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall, misfit
from coevolve.core.terminal import plain
from coevolve.core.untrusted import writable
from coevolve.environments.chains import Played, leaves, precondition, replay, shown_in
from coevolve.environments.environment import Environment, Session, blameless
from coevolve.words.words_match import speaks_of, words_match

GATES = (
    "readable",
    "executable",
    "reference_passes",
    "deterministic",
    "nothing_fails",
    "wrong_variant_fails",
    "needed",
    "collateral",
    "words_match",
    "duplicate",
    "near_duplicate",
    "panel_overlap",
)
ENVIRONMENT_GATES = GATES[1:9]
WORDS = ("none", "language", "values")  # rules of the gate words_match; see coevolve.words.words_match
MAX_LINE = 1_000_000  # most characters of a candidate
MAX_CALLS = 64  # most calls of a reference
JOINERS = frozenset("\u200c\u200d")  # format characters that some scripts and emoji need
VARIANTS = 4  # most wrong variants to try until one fails


def read(environment: str, line: str) -> Candidate:
    """Parse the candidate in ``line`` (JSON of a Candidate or a Task). A CoevolveError says why it is not `readable`."""
    if len(line) > MAX_LINE:
        raise CoevolveError(f"longer than {MAX_LINE} characters")
    if writable(line) != line:
        raise CoevolveError("not UTF-8")
    try:
        value = strict(line)
    except ValueError as error:
        raise CoevolveError(f"not JSON that every reader takes: {error}") from None
    if not isinstance(value, dict):
        raise CoevolveError("not a JSON object")
    held, where = (value["task"], "candidate.task") if "task" in value else (value, "task")
    bare = isinstance(held, dict) and "task_id" not in held  # people who write tasks by hand may leave out the hash
    task = parse(Task, {**held, "task_id": ""} if bare else held, where)
    task = replace(task, task_id=task.content_id) if bare else task
    known = value if "task" in value else {"asks": []}
    made = {"candidate_id": content_hash(["task", task.task_id]), **known, "task": task}
    candidate = parse(Candidate, made, "candidate")
    if task.environment != environment:
        raise CoevolveError(f"belongs to environment {task.environment!r}, expected {environment!r}")
    if task.task_id != task.content_id:
        raise CoevolveError("task_id is not the hash of the content")
    if complaint := unreadable(task.turns):
        raise CoevolveError(complaint)
    if len(task.turns) != len(task.reference):
        raise CoevolveError(f"{len(task.turns)} turns, but a reference of {len(task.reference)}")
    if not 0 < len(task.calls) <= MAX_CALLS:
        raise CoevolveError(f"the reference has {len(task.calls)} calls, expected 1 to {MAX_CALLS}")
    if wrong := next(filter(None, (misfit(call.name, call.arguments) for call in task.calls)), ""):
        raise CoevolveError(f"no agent can make a call of its reference: {wrong}")
    return candidate


def unreadable(turns: Sequence[str]) -> str:
    """The reason why an instruction is not readable; empty if it is."""
    if not turns or not all(turn.strip() for turn in turns):
        return "an instruction is empty"
    sign = next((sign for sign in sorted(set("".join(turns)) - JOINERS) if plain(sign) != sign), None)
    return f"an instruction holds the control or format character U+{ord(sign):04X}" if sign else ""


def environment_gates(environment: Environment, candidate: Candidate, words: str = "language") -> Iterator[Gate]:
    """Run ENVIRONMENT_GATES lazily and in order; the caller stops at the first failure. ``words`` is one of WORDS."""
    task = candidate.task
    session = environment.open()
    try:
        played = replay(session, task)
        yield _executable(environment, task, played)
        score = session.score()
        missed = [name for name, passed in score.checks.items() if not passed]
        passes = is_success(score.reward)
        yield Gate("reference_passes", passes, "" if passes else f"fails {', '.join(missed)}")
        digest = session.digest()
        again = replay(session, task, watch=False)
        same = (again.chain, again.said) == (played.chain, played.said) and session.digest() == digest
        yield Gate("deterministic", same, "" if same else "a second run of the reference differs")
        yield _nothing_fails(environment, session, task)
        yield _wrong_variant_fails(environment, session, task, played.changed)
        yield _needed(environment, session, task, played)
        yield _collateral(environment, session, candidate, played, words)
        if words == "none":
            yield Gate("words_match", None, "verify.words is none")
        else:
            yield words_match(environment, session, candidate, played, values=words == "values")
    finally:
        session.close()


def _executable(environment: Environment, task: Task, played: Played) -> Gate:
    chain = played.chain
    tools = {schema["function"]["name"] for schema in environment.tools()}
    unknown = next((call for call in chain if call.name not in tools), None)
    if unknown is not None:
        return Gate("executable", False, f"unknown tool {unknown.name[:80]}")
    if refused := played.refused:
        return Gate("executable", False, f"{refused.name} is refused: {refused.observation[:200]}")
    if len(chain) < len(task.calls) or len(played.said) < len(task.turns):
        return Gate("executable", False, "the episode ends before the reference and its turns do")
    return Gate("executable", played.over, "" if played.over else "the episode goes on after the last turn")


def _passes(environment: Environment, session: Session, task: Task, reference: Sequence[Sequence[ToolCall]]) -> bool:
    """Whether an agent that makes these calls succeeds. It does not if a call breaks the session, as in any episode."""
    try:
        replay(session, task, reference, watch=False)
        return is_success(session.score().reward)
    except CoevolveError:
        raise  # the environment cannot play the task at all
    except (Exception, SystemExit) as error:
        if blameless(error, environment, task):
            raise
        return False


def _nothing_fails(environment: Environment, session: Session, task: Task) -> Gate:
    if _passes(environment, session, task, [[] for _ in task.turns]):
        return Gate("nothing_fails", False, "passes without a call")
    last = task.reference[-1][-1] if task.reference[-1] else None
    if last is not None and len(task.calls) > 1 and not last.arguments:
        only = [*([] for _ in task.turns[1:]), [last]]
        if _passes(environment, session, task, only):
            return Gate("nothing_fails", False, f"passes with {last.name} alone")
    return Gate("nothing_fails", True)


def _with(task: Task, position: tuple[int, int], call: ToolCall | None) -> list[list[ToolCall]]:
    """The reference with ``call`` at ``position``, or without the call there if it is None."""
    turns = [list(turn) for turn in task.reference]
    turns[position[0]][position[1] : position[1] + 1] = [] if call is None else [call]
    return turns


def _wrong_variant_fails(environment: Environment, session: Session, task: Task, changed: Sequence[bool]) -> Gate:
    tried = 0
    for position, variant in islice(_variants(task, environment, changed), VARIANTS):
        tried += 1
        if not _passes(environment, session, task, _with(task, position, variant)):
            return Gate("wrong_variant_fails", True)
    reason = "all wrong variants pass" if tried else "no wrong variant can be made"
    return Gate("wrong_variant_fails", False, reason)


def _variants(
    task: Task, environment: Environment, changed: Sequence[bool]
) -> Iterator[tuple[tuple[int, int], ToolCall]]:
    """Wrong calls with their positions: another value, or another tool with the same arguments.

    Variants of calls that change the state come first.
    """
    keys = {
        schema["function"]["name"]: frozenset(schema["function"]["parameters"].get("properties", {}))
        for schema in environment.tools()
    }
    located = list(zip(task.positions, task.calls, strict=True))
    for row in sorted(range(len(located)), key=lambda row: not changed[row]):
        position, call = located[row]
        for key, value in call.arguments.items():
            if (other := another(value)) is not None:
                yield position, ToolCall(call.name, {**call.arguments, key: other})
        twin = next((name for name in keys if name != call.name and keys[name] == keys[call.name]), None)
        if twin is not None:
            yield position, ToolCall(twin, call.arguments)


def another(value: Any) -> Any:
    """A wrong value of the same type; None if the type has no obvious one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else None


def _needed(environment: Environment, session: Session, task: Task, played: Played) -> Gate:
    """Whether the task needs each change, and whether each later call than the last change is needed or used."""
    chain, changed = played.chain, played.changed
    last = max((row for row in range(len(chain)) if changed[row]), default=len(chain))
    for row, (position, call) in enumerate(zip(task.positions, task.calls, strict=True)):
        shown = [one.value for one in shown_in(chain[row].observation)] if row > last else []
        later = [value for other in chain[row + 1 :] for _, value in leaves(other.arguments)]
        idle = row > last and not any(value in shown for value in later)
        if (changed[row] or idle) and _passes(environment, session, task, _with(task, position, None)):
            return Gate(
                "needed", False, f"passes without call {row} ({call.name}){', whose result is not used' * idle}"
            )
    return Gate("needed", True)


def _collateral(environment: Environment, session: Session, candidate: Candidate, played: Played, words: str) -> Gate:
    """Whether the instruction asks for every change that does not only enable another change. Unknown without ``asks``.

    A claim in ``asks`` proves nothing. If the environment has phrases for the change, the words must mention it too. If it
    has none, or if ``words`` is "none", the gate does not check the change.
    """
    task, chain = candidate.task, played.chain
    if not candidate.asks:
        return Gate("collateral", None, "the candidate does not say which calls its instruction asks for")
    asked = {tuple(position) for position in candidate.asks}
    text = "\n".join(played.said)
    unproved = ""
    for row, (position, call) in enumerate(zip(task.positions, task.calls, strict=True)):
        answers = played.ended and row == len(chain) - 1
        if not played.changed[row] or (answers and (position in asked or not call.arguments)):
            continue
        mentioned = None if words == "none" else speaks_of(environment, chain, row, text)
        if position in asked and mentioned is not False:
            if mentioned is None:
                unproved = f"only the candidate says that its instruction asks for {call.name}"
        elif len(task.turns) > 1 or not precondition(session, task, chain, row):
            lacks = "but the instruction never mentions it" if position in asked else "but is not asked for"
            return Gate("collateral", False, f"call {row} ({call.name}) changes the state, {lacks}")
    return Gate("collateral", None if unproved else True, unproved)
