"""A support desk: tickets, customers and agents in a small in-memory database."""

import random
from collections.abc import Iterator

from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment, Question

FIRST = ("Anna", "Boris", "Carla", "David", "Elena", "Farid", "Greta", "Henry", "Ines", "Jonas")
LAST = ("Berg", "Costa", "Diaz", "Evans", "Fischer", "Greco")
SUBJECTS = ("broken kettle", "late delivery", "wrong invoice", "missing parcel", "lost password", "scratched table")
AGENTS = {"mia": "billing", "noah": "shipping", "olga": "accounts", "paul": "returns"}
REASONS = ("customer is angry", "second complaint", "legal threat")
STATUSES = ("open", "pending", "resolved", "closed")


class Desk:
    def __init__(self, customers: list, tickets: list) -> None:
        self.customers = {c["id"]: dict(c) for c in customers}
        self.tickets = {t["id"]: {**t, "notes": list(t["notes"])} for t in tickets}

    def _ticket(self, ticket_id: int) -> dict:
        if ticket_id not in self.tickets:
            raise ValueError(f"there is no ticket {ticket_id}")
        return self.tickets[ticket_id]

    def search_tickets(self, text: str) -> list:
        """Find tickets by words of their subject; returns their ids."""
        return [t["id"] for t in self.tickets.values() if text.lower() in t["subject"].lower()]

    def get_ticket(self, ticket_id: int) -> dict:
        """Show a ticket: customer, subject, status, assignee, refund and notes."""
        return self._ticket(ticket_id)

    def assign(self, ticket_id: int, agent: str) -> str:
        """Assign a ticket to an agent."""
        if agent not in AGENTS:
            raise ValueError(f"there is no agent {agent}")
        self._ticket(ticket_id)["assignee"] = agent
        return f"ticket {ticket_id} is assigned to {agent}"

    def set_status(self, ticket_id: int, status: str) -> str:
        """Set the status of a ticket: open, pending, resolved or closed."""
        if status not in STATUSES:
            raise ValueError(f"the status must be one of {', '.join(STATUSES)}")
        self._ticket(ticket_id)["status"] = status
        return f"ticket {ticket_id} is {status}"

    def refund(self, ticket_id: int, amount: int) -> str:
        """Refund euros to the customer of a ticket; at most 100."""
        if not 0 < amount <= 100:
            raise ValueError("a refund is between 1 and 100 euros")
        ticket = self._ticket(ticket_id)
        if ticket["refund"]:
            raise ValueError(f"ticket {ticket_id} already has a refund")
        ticket["refund"] = amount
        return f"refunded {amount} euros for ticket {ticket_id}"

    def add_note(self, ticket_id: int, text: str) -> str:
        """Add a note to a ticket."""
        self._ticket(ticket_id)["notes"].append(text)
        return f"ticket {ticket_id} has {len(self.tickets[ticket_id]['notes'])} notes"

    def list_agents(self) -> dict:
        """List the agents and their teams."""
        return AGENTS

    def search_customers(self, name: str) -> list:
        """Find customers by name; returns their ids, names and tickets."""
        return [
            {
                "id": c["id"],
                "name": c["name"],
                "tickets": [t["id"] for t in self.tickets.values() if t["customer"] == c["id"]],
            }
            for c in self.customers.values()
            if name.lower() in c["name"].lower()
        ]

    def escalate(self, ticket_id: int, reason: str) -> str:
        """Escalate a ticket to the manager, with a reason."""
        self._ticket(ticket_id)["escalated"] = reason
        return f"ticket {ticket_id} is escalated"


def world(rng: random.Random) -> dict:
    names = rng.sample([f"{a} {b}" for a in FIRST for b in LAST], 4)
    customers = [{"id": 10 + n, "name": name} for n, name in enumerate(names)]
    tickets = [
        {
            "id": i,
            "customer": 10 + n,
            "subject": s,
            "status": "open",
            "assignee": "",
            "refund": 0,
            "notes": [],
            "escalated": "",
        }
        for n, (i, s) in enumerate(zip(rng.sample(range(100, 400), 4), rng.sample(SUBJECTS, 4), strict=True))
    ]
    return {"customers": customers, "tickets": tickets}


def ask(kind: str, rng: random.Random, start: dict):
    t = rng.choice(start["tickets"])
    name = next(c["name"] for c in start["customers"] if c["id"] == t["customer"])
    number, subject = t["id"], t["subject"]
    if kind == "status":
        status = rng.choice(STATUSES[1:])
        return f"set the ticket about the {subject} to {status}", [
            ToolCall("search_tickets", {"text": subject}),
            ToolCall("set_status", {"ticket_id": number, "status": status}),
        ]
    if kind == "assign":
        agent = rng.choice(list(AGENTS))
        return f"give ticket {number} to the {AGENTS[agent]} team", [
            ToolCall("list_agents", {}),
            ToolCall("assign", {"ticket_id": number, "agent": agent}),
        ]
    if kind == "refund":
        amount = rng.randrange(5, 100, 5)
        return f"refund {amount} euros to {name}", [
            ToolCall("search_customers", {"name": name}),
            ToolCall("refund", {"ticket_id": number, "amount": amount}),
        ]
    if kind == "escalate":
        reason = rng.choice(REASONS)
        return f"escalate ticket {number} with the reason {reason}", [
            ToolCall("escalate", {"ticket_id": number, "reason": reason})
        ]
    if kind == "show":
        return f"what is known about the {subject} ticket", [
            ToolCall("search_tickets", {"text": subject}),
            ToolCall("get_ticket", {"ticket_id": number}),
        ]
    # only on `hard`: a longer errand
    amount, agent = rng.randrange(5, 100, 5), rng.choice(list(AGENTS))
    return f"refund {amount} euros to {name}, note {subject} on the ticket and give it to the {AGENTS[agent]} team", [
        ToolCall("search_customers", {"name": name}),
        ToolCall("refund", {"ticket_id": number, "amount": amount}),
        ToolCall("add_note", {"ticket_id": number, "text": subject}),
        ToolCall("list_agents", {}),
        ToolCall("assign", {"ticket_id": number, "agent": agent}),
    ]


class Helpdesk(MethodEnvironment):
    name, simulator = "helpdesk", Desk
    panels = ("validation", "test", "hard")

    def questions(self, split: str) -> Iterator[Question]:
        rng = random.Random(f"helpdesk {split}")
        kinds = ("long",) if split == "hard" else ("status", "assign", "refund", "escalate", "show")
        for number in range({"seed": 60, "validation": 40, "test": 40, "hard": 20}[split]):
            start = world(rng)
            instruction, calls = ask(kinds[number % len(kinds)], rng, start)
            yield instruction, start, calls
