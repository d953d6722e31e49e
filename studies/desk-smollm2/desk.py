"""A support desk with thirteen tools and twenty-five kinds of tasks, no two of which need the same chain of tools.

A kind is an action and a way to name its ticket or customer. Five kinds occur in no task of `seed`, but all their tools and all their
parts do. Full names, subjects and ticket numbers of a split occur in no other split.
"""

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

from coevolve.core.task import Task, ToolCall
from coevolve.environments.methods import MethodEnvironment, Question

SPLITS = ("seed", "validation", "test", "hard")
SIZES = {"seed": 200, "validation": 100, "test": 200, "hard": 40}

FIRST = ("Anna", "Boris", "Carla", "David", "Elena", "Farid", "Greta", "Henry", "Ines", "Jonas", "Kira", "Luis")
LAST = ("Berg", "Costa", "Diaz", "Evans", "Fischer", "Greco", "Hansen", "Ito")
HOW = ("broken", "missing", "late", "wrong", "damaged", "second", "empty", "noisy")
WHAT = (
    "kettle",
    "parcel",
    "invoice",
    "lamp",
    "table",
    "phone",
    "printer",
    "order",
    "chair",
    "screen",
    "charger",
    "oven",
)
AGENTS = {"billing": "mia", "shipping": "noah", "accounts": "olga", "returns": "paul"}
REASONS = ("customer is angry", "second complaint", "legal threat", "third delay")
NOTES = ("called back", "waits for parts", "sent a photo", "wants a call")
LABELS = ("vip", "fraud", "warranty", "repeat")

Status = Literal["open", "pending", "resolved", "closed"]
Priority = Literal["low", "normal", "high", "urgent"]

# how each action is worded; {it} names the ticket, {who} the customer
WORDS = {
    "status": ("set {it} to {status}", "mark {it} as {status}"),
    "priority": ("give {it} {priority} priority", "make the priority of {it} {priority}"),
    "refund": ("refund {amount} euros for {it}", "pay back {amount} euros for {it}"),
    "note": ("add the note {note} to {it}", "write {note} on {it}"),
    "escalate": ("escalate {it} with the reason {reason}", "send {it} to the manager, the reason is {reason}"),
    "label": ("label {it} as {label}", "put the label {label} on {it}"),
    "assign": ("give {it} to the {team} team", "let the {team} team handle {it}"),
    "show": ("what is known about {it}", "show me {it}"),
    "phone": ("change the phone of {who} to {phone}", "{who} has a new phone number, {phone}"),
    "customer": ("show the record of {who}", "what do we know about {who}"),
}
ITS = {"number": "ticket {number}", "subject": "the ticket about the {subject}", "name": "the ticket of {who}"}
ABOUT = ("status", "priority", "refund", "note", "escalate", "label", "assign", "show")  # actions that need a ticket
KINDS = [
    *(f"{action} by {way}" for action, way in product(ABOUT, ITS) if (action, way) != ("status", "number")),
    "phone by name",
    "customer by name",
]
WITHHELD = ("label by number", "refund by subject", "assign by subject", "escalate by name", "priority by name")


class Desk:
    """The world: customers and tickets. The attributes are the state."""

    def __init__(self, customers: list[dict[str, Any]], tickets: list[dict[str, Any]]) -> None:
        self.customers = {one["customer"]: dict(one) for one in customers}
        self.tickets = {one["ticket"]: {**one, "notes": [], "labels": []} for one in tickets}

    def _ticket(self, ticket: int) -> dict[str, Any]:
        if ticket not in self.tickets:
            raise ValueError(f"there is no ticket {ticket}")
        return self.tickets[ticket]

    def _customer(self, customer: int) -> dict[str, Any]:
        if customer not in self.customers:
            raise ValueError(f"there is no customer {customer}")
        return self.customers[customer]

    def find_ticket(self, subject: str) -> list[dict[str, Any]]:
        """Find tickets by words of their subject."""
        words = subject.lower()
        found = [one for one in self.tickets.values() if words in one["subject"]]
        return [{"ticket": one["ticket"], "subject": one["subject"]} for one in found]

    def find_customer(self, name: str) -> list[dict[str, Any]]:
        """Find customers by name, each with the number of their ticket."""
        words = name.lower()
        owners = {one["customer"]: one["ticket"] for one in self.tickets.values()}
        found = [one for one in self.customers.values() if words in one["name"].lower()]
        return [{"customer": one["customer"], "ticket": owners[one["customer"]]} for one in found]

    def find_agent(self, team: str) -> list[dict[str, str]]:
        """Find the agent of a team."""
        return [{"agent": agent, "team": name} for name, agent in AGENTS.items() if name == team.lower()]

    def show_ticket(self, ticket: int) -> dict[str, Any]:
        """Show a ticket."""
        return self._ticket(ticket)

    def show_customer(self, customer: int) -> dict[str, Any]:
        """Show the record of a customer."""
        return self._customer(customer)

    def set_status(self, ticket: int, status: Status) -> str:
        """Set the status of a ticket."""
        self._ticket(ticket)["status"] = status
        return f"ticket {ticket} is {status}"

    def set_priority(self, ticket: int, priority: Priority) -> str:
        """Set the priority of a ticket."""
        self._ticket(ticket)["priority"] = priority
        return f"ticket {ticket} has {priority} priority"

    def refund(self, ticket: int, amount: int) -> str:
        """Refund euros for a ticket, at most 100 and only once."""
        if not 0 < amount <= 100:
            raise ValueError("a refund is between 1 and 100 euros")
        if self._ticket(ticket)["refund"]:
            raise ValueError(f"ticket {ticket} already has a refund")
        self._ticket(ticket)["refund"] = amount
        return f"refunded {amount} euros for ticket {ticket}"

    def add_note(self, ticket: int, text: str) -> str:
        """Add a note to a ticket."""
        self._ticket(ticket)["notes"].append(text)
        return f"ticket {ticket} has a new note"

    def escalate(self, ticket: int, reason: str) -> str:
        """Escalate a ticket to the manager."""
        self._ticket(ticket)["escalated"] = reason
        return f"ticket {ticket} is escalated"

    def add_label(self, ticket: int, label: str) -> str:
        """Put a label on a ticket."""
        self._ticket(ticket)["labels"].append(label)
        return f"ticket {ticket} has the label {label}"

    def assign(self, ticket: int, agent: str) -> str:
        """Assign a ticket to an agent."""
        if agent not in AGENTS.values():
            raise ValueError(f"there is no agent {agent}")
        self._ticket(ticket)["assignee"] = agent
        return f"ticket {ticket} is assigned to {agent}"

    def set_phone(self, customer: int, phone: str) -> str:
        """Change the phone number of a customer."""
        self._customer(customer)["phone"] = phone
        return f"customer {customer} has the phone {phone}"


def _pairs(one: tuple[str, ...], other: tuple[str, ...], split: str) -> list[str]:
    """The pairs of words of ``split``: a quarter of all, in which each word occurs."""
    turn = SPLITS.index(split)
    return [f"{a} {b}" for (i, a), (j, b) in product(enumerate(one), enumerate(other)) if (i + j) % len(SPLITS) == turn]


def _world(split: str, rng: random.Random) -> dict[str, Any]:
    customers = [
        {"customer": 10 + row, "name": name, "phone": str(rng.randrange(1000, 10000))}
        for row, name in enumerate(rng.sample(_pairs(FIRST, LAST, split), 4))
    ]
    numbers = rng.sample(range(100 + SPLITS.index(split), 1000, len(SPLITS)), 4)
    about = rng.sample(_pairs(HOW, WHAT, split), 4)
    blank = {"status": "open", "priority": "normal", "assignee": "", "refund": 0, "escalated": ""}
    tickets = [
        {"ticket": number, "customer": 10 + row, "subject": subject, **blank}
        for row, (number, subject) in enumerate(zip(numbers, about, strict=True))
    ]
    return {"customers": customers, "tickets": tickets}


def _errand(kind: str, world: dict[str, Any], rng: random.Random) -> tuple[str, list[ToolCall]]:
    """The words of a task of ``kind`` in ``world``, and the calls that do it."""
    action, way = kind.split(" by ")
    row = rng.randrange(len(world["tickets"]))
    ticket, customer = world["tickets"][row], world["customers"][row]
    number, team = ticket["ticket"], rng.choice(list(AGENTS))
    said = {
        "number": number,
        "subject": ticket["subject"],
        "who": customer["name"],
        "status": rng.choice(("pending", "resolved", "closed")),
        "priority": rng.choice(("low", "high", "urgent")),
        "amount": rng.randrange(5, 100, 5),
        "note": rng.choice(NOTES),
        "reason": rng.choice(REASONS),
        "label": rng.choice(LABELS),
        "team": team,
        "phone": str(rng.randrange(1000, 10000)),
    }
    words = rng.choice(WORDS[action]).format(it=ITS[way].format(**said), **said)
    find = {
        "number": [],
        "subject": [ToolCall("find_ticket", {"subject": ticket["subject"]})],
        "name": [ToolCall("find_customer", {"name": customer["name"]})],
    }[way]
    act = {
        "status": [ToolCall("set_status", {"ticket": number, "status": said["status"]})],
        "priority": [ToolCall("set_priority", {"ticket": number, "priority": said["priority"]})],
        "refund": [ToolCall("refund", {"ticket": number, "amount": said["amount"]})],
        "note": [ToolCall("add_note", {"ticket": number, "text": said["note"]})],
        "escalate": [ToolCall("escalate", {"ticket": number, "reason": said["reason"]})],
        "label": [ToolCall("add_label", {"ticket": number, "label": said["label"]})],
        "assign": [
            ToolCall("find_agent", {"team": team}),
            ToolCall("assign", {"ticket": number, "agent": AGENTS[team]}),
        ],
        "show": [ToolCall("show_ticket", {"ticket": number})],
        "phone": [ToolCall("set_phone", {"customer": customer["customer"], "phone": said["phone"]})],
        "customer": [ToolCall("show_customer", {"customer": customer["customer"]})],
    }[action]
    return words, find + act


def _chains() -> dict[tuple[str, ...], str]:
    """The kind of each chain of tools."""
    rng = random.Random("kinds")
    world = _world("seed", rng)
    return {tuple(call.name for call in _errand(kind, world, rng)[1]): kind for kind in KINDS}


class SupportDesk(MethodEnvironment):
    """`hard` asks for two errands of different kinds, about any two tickets, in one task."""

    name, simulator = "support_desk", Desk
    panels = ("validation", "test", "hard")

    def questions(self, split: str) -> Iterator[Question]:
        rng = random.Random(f"support desk {split}")
        kinds = [kind for kind in KINDS if split != "seed" or kind not in WITHHELD]
        for number in range(SIZES[split]):
            world = _world(split, rng)
            if split == "hard":
                parts = [_errand(kind, world, rng) for kind in rng.sample(KINDS, 2)]
            else:
                parts = [_errand(kinds[number % len(kinds)], world, rng)]
            yield " and ".join(words for words, _ in parts), world, [call for _, calls in parts for call in calls]

    def category(self, task: Task) -> str:
        return _chains().get(tuple(call.name for call in task.calls), "other chains")
