"""The gates that a candidate must pass, in order; each is a named outcome with its reason.

`readable` is decided by the line alone. The environment decides the next eight: what the candidate's calls and their variants
do in it, and whether its words are about them. The last three are decided by the tasks that are there already.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from coevolve.chains import precondition, replay
from coevolve.core.calls import writable
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import parse, strict
from coevolve.core.mixtures import shares
from coevolve.core.records import Candidate, Gate
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall, task_id_of
from coevolve.environments.environment import Environment, Session
from coevolve.stages.verify.library import Library, WorldChange
from coevolve.stages.verify.words import Played, against

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
WORDS = ("none", "language", "values")  # which rules the gate words_match goes by; see coevolve.stages.verify.words
MAX_LINE = 1_000_000  # characters of a candidate
MAX_CALLS = 64  # of a reference
VARIANTS = 4  # wrong variants that are tried until one fails


def read(environment: str, line: str) -> Candidate:
    """The candidate in ``line`` (JSON of a Candidate or a Task); a CoevolveError says why it is not `readable`."""
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
    if "task" in value:
        parse(Task, value["task"], "candidate.task")  # names the version of the task, if that is the trouble
        candidate = parse(Candidate, value, "candidate")
    else:
        task = parse(Task, value, "task")
        candidate = Candidate(content_hash(["task", task.task_id]), task, [])
    task = candidate.task
    if task.environment not in shares(environment):
        raise CoevolveError(f"belongs to environment {task.environment!r}, expected {environment!r}")
    if task.task_id != task_id_of(task.environment, task.world, task.turns, task.reference):
        raise CoevolveError("task_id is not the hash of the content")
    if not task.turns or not all(turn.strip() for turn in task.turns):
        raise CoevolveError("an instruction is empty")
    if len(task.turns) != len(task.reference):
        raise CoevolveError(f"{len(task.turns)} turns, but a reference of {len(task.reference)}")
    calls = sum(len(turn) for turn in task.reference)
    if not 0 < calls <= MAX_CALLS:
        raise CoevolveError(f"the reference has {calls} calls, expected 1 to {MAX_CALLS}")
    return candidate


def environment_gates(environment: Environment, candidate: Candidate, words: str = "language") -> Iterator[Gate]:
    """Those of ENVIRONMENT_GATES, in order; who asks stops at the first that fails. ``words`` is one of WORDS."""
    task = candidate.task
    session = environment.open()
    try:
        chain, changed, ended = replay(session, task)
        yield _executable(environment, task, chain)
        score = session.score()
        missed = [name for name, passed in score.checks.items() if not passed]
        passes = is_success(score.reward)
        yield Gate("reference_passes", passes, "" if passes else f"fails {', '.join(missed)}")
        digest = session.digest()
        again, _, _ = replay(session, task, watch=False)
        same = again == chain and session.digest() == digest
        yield Gate("deterministic", same, "" if same else "a second run of the reference differs")
        yield _nothing_fails(session, task)
        yield _wrong_variant_fails(session, task, environment, changed)
        yield _needed(session, task, changed)
        yield _collateral(session, candidate, changed)
        if words == "none":
            yield Gate("words_match", None, "verify.words is none")
        else:
            played = Played(chain, changed, ended)
            reason = against(environment, session, candidate, played, values=words == "values")
            yield Gate("words_match", not reason, reason)
    finally:
        session.close()


def _executable(environment: Environment, task: Task, chain: Sequence[CallOutcome]) -> Gate:
    tools = {schema["function"]["name"] for schema in environment.tools()}
    unknown = next((call for call in chain if call.name not in tools), None)
    if unknown is not None:
        return Gate("executable", False, f"unknown tool {unknown.name[:80]}")
    refused = next((call for call in chain if not call.ok), None)
    if refused is not None:
        return Gate("executable", False, f"{refused.name} is refused: {refused.observation[:200]}")
    whole = len(chain) == sum(len(turn) for turn in task.reference)
    return Gate("executable", whole, "" if whole else "the episode ends before the reference does")


def _passes(session: Session, task: Task, reference: Sequence[Sequence[ToolCall]]) -> bool:
    session.reset(task)
    for number, turn in enumerate(reference):
        for call in turn:
            if session.step(call).done:
                return is_success(session.score().reward)
        if number + 1 < len(reference) or not any(reference):
            session.say("")
    return is_success(session.score().reward)


def _nothing_fails(session: Session, task: Task) -> Gate:
    if _passes(session, task, [[] for _ in task.turns]):
        return Gate("nothing_fails", False, "passes without a call")
    last = task.reference[-1][-1] if task.reference[-1] else None
    calls = sum(len(turn) for turn in task.reference)
    if last is not None and calls > 1 and not last.arguments:
        only = [*([] for _ in task.turns[1:]), [last]]
        if _passes(session, task, only):
            return Gate("nothing_fails", False, f"passes with {last.name} alone")
    return Gate("nothing_fails", True)


def _flat(task: Task) -> list[tuple[int, int]]:
    return [(turn, row) for turn, calls in enumerate(task.reference) for row in range(len(calls))]


def _with(task: Task, place: tuple[int, int], call: ToolCall | None) -> list[list[ToolCall]]:
    """The reference with another call at ``place``, or none."""
    turns = [list(turn) for turn in task.reference]
    turns[place[0]][place[1] : place[1] + 1] = [] if call is None else [call]
    return turns


def _wrong_variant_fails(session: Session, task: Task, environment: Environment, changed: Sequence[bool]) -> Gate:
    tried = 0
    for place, variant in islice(_variants(task, environment, changed), VARIANTS):
        tried += 1
        if not _passes(session, task, _with(task, place, variant)):
            return Gate("wrong_variant_fails", True)
    reason = "all wrong variants pass" if tried else "no wrong variant can be made"
    return Gate("wrong_variant_fails", False, reason)


def _variants(
    task: Task, environment: Environment, changed: Sequence[bool]
) -> Iterator[tuple[tuple[int, int], ToolCall]]:
    """Wrong calls: another tool of the same arguments, and another value; state-changing calls first."""
    keys = {
        schema["function"]["name"]: frozenset(schema["function"]["parameters"].get("properties", {}))
        for schema in environment.tools()
    }
    places = _flat(task)
    order = sorted(range(len(places)), key=lambda row: not changed[row])
    for row in order:
        turn, position = places[row]
        call = task.reference[turn][position]
        for key, value in call.arguments.items():
            if (other := _another(value)) is not None:
                yield (turn, position), ToolCall(call.name, {**call.arguments, key: other})
        twin = next((name for name in keys if name != call.name and keys[name] == keys[call.name]), None)
        if twin is not None:
            yield (turn, position), ToolCall(twin, call.arguments)


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else None


def _needed(session: Session, task: Task, changed: Sequence[bool]) -> Gate:
    for row, place in enumerate(_flat(task)):
        if changed[row] and _passes(session, task, _with(task, place, None)):
            call = task.reference[place[0]][place[1]]
            return Gate("needed", False, f"passes without call {row} ({call.name})")
    return Gate("needed", True)


def _collateral(session: Session, candidate: Candidate, changed: Sequence[bool]) -> Gate:
    """Every change is asked for, or is a precondition of what is. Candidates that do not say what they ask: unknown."""
    task = candidate.task
    if not candidate.asks:
        return Gate("collateral", None, "the candidate does not say which calls its instruction asks for")
    asked = {tuple(place) for place in candidate.asks}
    for row, place in enumerate(_flat(task)):
        call = task.reference[place[0]][place[1]]
        ends = row == len(changed) - 1 and not call.arguments
        if not changed[row] or place in asked or ends:
            continue
        chain, _, _ = replay(session, task, watch=False)
        if len(task.turns) > 1 or not precondition(session, task, chain, row):
            return Gate("collateral", False, f"call {row} ({call.name}) changes the state and is not asked for")
    return Gate("collateral", True)


def library_gates(
    library: Library, task: Task, effect: WorldChange | None = None, environment: Environment | None = None
) -> Iterator[Gate]:
    """The last three, in order; ``effect`` is what ``environment`` says that the task is, if it was asked."""
    kind = library.duplicate(task)
    yield Gate("duplicate", kind is None, f"the same as an {kind} task" if kind else "")
    near = library.nearest(task)
    yield Gate("near_duplicate", near is None, f"{near[1]:.2f} like task {near[0]}" if near else "")
    panel = library.panel(task, effect, environment)
    yield Gate("panel_overlap", panel is None, f"overlaps panel {panel}" if panel else "")
