"""Candidates from outside, for an environment whose session breaks with some wrong arguments."""

import pytest

from coevolve import Task, ToolCall, register, verify
from coevolve.environments.methods import MethodEnvironment, Question


class Bank:
    def __init__(self, money: dict[str, int]) -> None:
        self.money = money

    def transfer(self, sender: str, receiver: str, amount: int) -> str:
        """Transfer an amount."""
        if {sender, receiver} - set(self.money):
            raise MemoryError("unknown names")  # it breaks a session, as other exceptions do not
        if self.money[sender] < amount:
            raise ValueError("not enough money")
        self.money[sender] -= amount
        self.money[receiver] += amount
        return "done"


class Banks(MethodEnvironment):
    name, simulator = "banks", Bank

    def questions(self, split: str) -> list[Question]:
        return [("send 2 from ada to eve", MONEY, [sent("ada", "eve", 2)])]


MONEY = {"money": {"ada": 20, "eve": 20}}


def sent(sender: str, receiver: str, amount: int) -> ToolCall:
    return ToolCall("transfer", {"sender": sender, "receiver": receiver, "amount": amount})


def task(*calls: ToolCall) -> Task:
    return Task.create("banks", "seed", ["send 7 from ada to eve"], MONEY, [calls])


@pytest.mark.parametrize(
    ("candidate", "refusal"),
    [
        (task(sent("ada", "eve", 7)), None),  # the first wrong variant sends from adax, which breaks the session
        (task(sent("ada", "eve", 70)), "executable"),
        (task(sent("ada", "nobody", 7)), "executable"),
    ],
)
def test_wrong_variant_that_breaks_the_session_fails(
    candidate: Task, refusal: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevolve.environments.registry.REGISTERED", {})
    register(Banks)
    [(verdict, _)] = verify("banks", [candidate])
    assert (verdict.refusal and verdict.refusal.name) == refusal, verdict
