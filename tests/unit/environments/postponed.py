"""Simulators whose annotations are text, one of them of an import for type checkers only."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

if TYPE_CHECKING:
    from fractions import Fraction

Item = TypeVar("Item")


class Node(TypedDict, total=False):
    name: str
    inner: list[Node]


class Prices:
    class Unit(Enum):
        EURO = "euro"

    def charge(self, amount: Decimal, unit: Unit) -> str:
        return repr([amount, unit.name])

    def plant(self, tree: Node) -> list[str]:
        return [tree["name"], *(one["name"] for one in tree.get("inner", []))]

    def half(self) -> Fraction:  # an agent gives no results, so their hints need not be there
        raise NotImplementedError


class Shelf(Generic[Item]):
    def put(self, item: Item, more: list[Item]) -> list[Item]:
        return [item, *more]


class Unreadable:
    def charge(self, amount: Fraction) -> str:
        return ""
