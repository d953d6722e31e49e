"""Chains of calls, replayed: what each call did, and which calls are only how, not what."""

from collections.abc import Sequence

from coevolve.environments.base import Session
from coevolve.records import CallOutcome, Task, ToolCall
from coevolve.wording import source_of


def replay(
    session: Session, task: Task, reference: Sequence[Sequence[ToolCall]] | None = None, watch: bool = True
) -> tuple[list[CallOutcome], list[bool], bool]:
    """The calls of ``reference`` (the task's own, if None) in a fresh world of ``task``.

    As made, whether each changed the state (False throughout without ``watch``, which costs a digest a call), and
    whether a call ended the episode (then the rest is not made).
    """
    session.reset(task)
    chain: list[CallOutcome] = []
    changed: list[bool] = []
    turns = task.reference if reference is None else reference
    before = session.digest() if watch else ""
    for number, turn in enumerate(turns):
        for call in turn:
            heard = session.step(call)
            after = session.digest() if watch else ""
            chain.append(CallOutcome(call.name, call.arguments, not heard.error, heard.content, number))
            changed.append(after != before)
            before = after
            if heard.done:
                return chain, changed, True
        if number + 1 < len(turns):
            session.say("")
    return chain, changed, False


def precondition(session: Session, task: Task, chain: Sequence[CallOutcome], position: int) -> bool:
    """Whether a later call of ``chain`` (of one turn) is refused without this one, and nothing else comes of it.

    Such a call (unlock, top up) is how, not what: an instruction need not ask for it. One whose result is used, or
    that makes something which a later lookup finds, is not of this kind.
    """
    calls = [ToolCall(call.name, call.arguments) for call in chain]
    without, _, _ = replay(session, task, [calls[:position] + calls[position + 1 :]], watch=False)
    if len(without) + 1 == len(chain) and all(call.ok for call in without):
        return False
    for row in range(position + 1, len(chain)):
        for key, value in chain[row].arguments.items():
            source = source_of(key, value, chain, row)
            if source is None:
                continue
            if source == position:
                return False
            moved = source - (source > position)
            lost = (
                moved < len(without) and without[moved].ok and without[moved].observation != chain[source].observation
            )
            if lost and source_of(key, value, [without[moved]], 1) is None:
                return False
    return True
