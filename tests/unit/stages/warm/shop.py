"""A user's own environment: customers and their accounts. No reference calls ``block``."""

from collections.abc import Iterator
from itertools import product

from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment, Question

NAMES = ("Ada Berg", "Bo Diaz", "Cem Ito", "Dan Weiss")


class Accounts:
    def __init__(self, accounts: dict[str, int]) -> None:
        self.accounts, self.paid, self.blocked = dict(accounts), dict[str, int](), list[int]()

    def find(self, name: str) -> list[dict[str, int | str]]:
        """Find the account of a customer."""
        return [{"account": number, "owner": owner} for owner, number in self.accounts.items() if owner == name]

    def pay(self, account: int, amount: int) -> str:
        """Pay euros into an account."""
        self.paid[str(account)] = amount
        return f"paid {amount} into {account}"

    def block(self, account: int, urgent: bool) -> str:
        """Block an account."""
        self.blocked.append(account)
        return "ok"


class Shop(MethodEnvironment):
    name, simulator = "shop", Accounts

    def questions(self, split: str) -> Iterator[Question]:
        accounts = {name: 301 + number for number, name in enumerate(NAMES)}
        for name, amount in product(NAMES, range(5) if split == "seed" else range(5, 7)):
            find = ToolCall("find", {"name": name})
            paid = ToolCall("pay", {"account": accounts[name], "amount": 10 + amount})
            yield f"pay {10 + amount} euros to {name}", {"accounts": accounts}, [find, paid]
            if amount == 0:
                yield f"which account has {name}", {"accounts": accounts}, [find]
