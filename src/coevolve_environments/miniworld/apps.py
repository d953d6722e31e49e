"""The tools of miniworld: a table of name, schema and function.

A tool reads or changes the state and returns a JSON value. To refuse a call it raises ``Refused``, whose text says how to fix
the call. Look-alikes are tools that take the same arguments but mean something else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coevolve_environments.miniworld.world import CITIES, DAYS, LOCKABLE, State


class Refused(Exception):
    """The world does not allow the call; the text is the observation."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    arguments: dict[str, dict[str, Any]]
    function: Callable[..., Any]
    optional: frozenset[str] = frozenset()
    mutating: bool = False

    def schema(self) -> dict[str, Any]:
        """The OpenAI function schema."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": self.arguments,
                    "required": [key for key in self.arguments if key not in self.optional],
                    "additionalProperties": False,
                },
            },
        }


def _entity(state: State, app: str, key: str) -> dict[str, Any]:
    try:
        return state[app][key]
    except KeyError:
        raise Refused(f"no {key} in {app}; find it first") from None


def _unlocked(state: State, app: str) -> None:
    if state["session"][app]["locked"]:
        raise Refused(f"{app} is locked; unlock it first")


def _new_id(state: State, app: str, letter: str) -> str:
    """The first free identifier, so that the same calls create the same ids."""
    number = 0
    while f"{letter}{number:02d}" in state[app]:
        number += 1
    return f"{letter}{number:02d}"


def _finding(app: str, *shown: str) -> Callable[..., Any]:
    """A tool that lists the entities of ``app`` with the fields that it is called with."""

    def function(state: State, **wanted: str) -> Any:
        if app in LOCKABLE:
            _unlocked(state, app)
        return [
            {"id": key, **{field: entity[field] for field in shown}}
            for key, entity in state[app].items()
            if all(entity[field] == value for field, value in wanted.items())
        ]

    return function


def _setting(app: str, field: str, value: object, words: str) -> Callable[..., Any]:
    """A tool that sets a field of the entity that its only argument names. ``words`` describe an entity that has the value."""

    def function(state: State, **arguments: str) -> Any:
        (key,) = arguments.values()
        entity = _entity(state, app, key)
        if entity[field] == value:
            raise Refused(f"{key} is {words} already")
        entity[field] = value
        return "ok"

    return function


def add_contact(state: State, name: str, city: str) -> Any:
    key = _new_id(state, "contacts", "c")
    state["contacts"][key] = {"name": name, "city": city, "blocked": False}
    return {"id": key}


def delete_contact(state: State, contact_id: str) -> Any:
    _entity(state, "contacts", contact_id)
    del state["contacts"][contact_id]
    return "ok"


def add_event(state: State, title: str, day: str) -> Any:
    key = _new_id(state, "calendar", "e")
    state["calendar"][key] = {"title": title, "day": day, "answer": "open"}
    return {"id": key}


def move_event(state: State, event_id: str, day: str) -> Any:
    event = _entity(state, "calendar", event_id)
    if event["day"] == day:
        raise Refused(f"{event_id} is on {day} already")
    event["day"] = day
    return "ok"


def _sent(state: State, contact_id: str, mail: dict[str, Any]) -> Any:
    if _entity(state, "contacts", contact_id)["blocked"]:
        raise Refused(f"{contact_id} is blocked")
    key = _new_id(state, "mail", "m")
    state["mail"][key] = {**mail, "to": contact_id, "from": "me", "folder": "sent"}
    return {"id": key}


def send_mail(state: State, contact_id: str, subject: str) -> Any:
    return _sent(state, contact_id, {"subject": subject})


def forward_mail(state: State, mail_id: str, contact_id: str) -> Any:
    return _sent(state, contact_id, _entity(state, "mail", mail_id))


def _present(state: State, file_id: str) -> dict[str, Any]:
    _unlocked(state, "files")
    file = _entity(state, "files", file_id)
    if file["trashed"]:
        raise Refused(f"{file_id} is trashed; restore it first")
    return file


def trash_file(state: State, file_id: str) -> Any:
    _present(state, file_id)["trashed"] = True
    return "ok"


def copy_file(state: State, file_id: str) -> Any:
    file = _present(state, file_id)
    key = _new_id(state, "files", "f")
    state["files"][key] = {**file, "shared": []}
    return {"id": key}


def restore_file(state: State, file_id: str) -> Any:
    _unlocked(state, "files")
    file = _entity(state, "files", file_id)
    if not file["trashed"]:
        raise Refused(f"{file_id} is not trashed")
    file["trashed"] = False
    return "ok"


def share_file(state: State, file_id: str, contact_id: str) -> Any:
    file = _present(state, file_id)
    _entity(state, "contacts", contact_id)
    if contact_id in file["shared"]:
        raise Refused(f"{file_id} is shared with {contact_id} already")
    file["shared"].append(contact_id)
    return "ok"


def balance(state: State) -> Any:
    _unlocked(state, "wallet")
    return {"balance": state["wallet"]["account"]["balance"]}


def top_up(state: State, amount: int) -> Any:
    _unlocked(state, "wallet")
    if amount < 1:
        raise Refused("amount must be at least 1")
    state["wallet"]["account"]["balance"] += amount
    return "ok"


def _transfer(state: State, kind: str, contact_id: str, amount: int) -> Any:
    _unlocked(state, "wallet")
    _entity(state, "contacts", contact_id)
    if amount < 1:
        raise Refused("amount must be at least 1")
    key = f"t{len(state['wallet']) - 1:02d}"
    state["wallet"][key] = {"kind": kind, "contact": contact_id, "amount": amount}
    return "ok"


def pay(state: State, contact_id: str, amount: int) -> Any:
    _unlocked(state, "wallet")
    account = state["wallet"]["account"]
    if account["balance"] < amount:
        raise Refused(f"wallet holds {account['balance']}; top_up {amount - account['balance']} first")
    result = _transfer(state, "payment", contact_id, amount)
    account["balance"] -= amount
    return result


def request_money(state: State, contact_id: str, amount: int) -> Any:
    return _transfer(state, "request", contact_id, amount)


def unlock(state: State, app: str) -> Any:
    if not state["session"][app]["locked"]:
        raise Refused(f"{app} is not locked")
    state["session"][app]["locked"] = False
    return "ok"


def lock(state: State, app: str) -> Any:
    _unlocked(state, app)
    state["session"][app]["locked"] = True
    return "ok"


TEXT: dict[str, Any] = {"type": "string"}
AMOUNT: dict[str, Any] = {"type": "integer"}
DAY: dict[str, Any] = {"type": "string", "enum": DAYS}
CITY: dict[str, Any] = {"type": "string", "enum": CITIES}
APP: dict[str, Any] = {"type": "string", "enum": list(LOCKABLE)}

COMPLETE = "complete_task"

_TOOLS = [
    Tool(
        "find_contact",
        "Contacts of a name",
        {"name": TEXT, "city": CITY},
        _finding("contacts", "city"),
        frozenset({"city"}),
    ),
    Tool("add_contact", "Add a contact", {"name": TEXT, "city": CITY}, add_contact, mutating=True),
    Tool("delete_contact", "Delete a contact", {"contact_id": TEXT}, delete_contact, mutating=True),
    Tool(
        "block_contact",
        "Block a contact",
        {"contact_id": TEXT},
        _setting("contacts", "blocked", True, "blocked"),
        mutating=True,
    ),
    Tool("find_event", "Events of a title", {"title": TEXT}, _finding("calendar", "day")),
    Tool("add_event", "Add an event", {"title": TEXT, "day": DAY}, add_event, mutating=True),
    Tool("move_event", "Move an event", {"event_id": TEXT, "day": DAY}, move_event, mutating=True),
    Tool(
        "cancel_event",
        "Cancel an event",
        {"event_id": TEXT},
        _setting("calendar", "answer", "cancelled", "cancelled"),
        mutating=True,
    ),
    Tool(
        "decline_event",
        "Decline an event",
        {"event_id": TEXT},
        _setting("calendar", "answer", "declined", "declined"),
        mutating=True,
    ),
    Tool(
        "accept_event",
        "Accept an event",
        {"event_id": TEXT},
        _setting("calendar", "answer", "accepted", "accepted"),
        mutating=True,
    ),
    Tool("find_mail", "Mails of a subject", {"subject": TEXT}, _finding("mail", "from")),
    Tool("send_mail", "Write a mail", {"contact_id": TEXT, "subject": TEXT}, send_mail, mutating=True),
    Tool(
        "archive_mail",
        "Archive a mail",
        {"mail_id": TEXT},
        _setting("mail", "folder", "archive", "in archive"),
        mutating=True,
    ),
    Tool("delete_mail", "Delete a mail", {"mail_id": TEXT}, _setting("mail", "folder", "bin", "in bin"), mutating=True),
    Tool(
        "report_mail",
        "Report a mail as spam",
        {"mail_id": TEXT},
        _setting("mail", "folder", "spam", "in spam"),
        mutating=True,
    ),
    Tool("forward_mail", "Forward a mail", {"mail_id": TEXT, "contact_id": TEXT}, forward_mail, mutating=True),
    Tool("find_file", "Files of a name", {"name": TEXT}, _finding("files", "size")),
    Tool("trash_file", "Put a file into the trash", {"file_id": TEXT}, trash_file, mutating=True),
    Tool("copy_file", "Copy a file", {"file_id": TEXT}, copy_file, mutating=True),
    Tool("restore_file", "Take a file out of the trash", {"file_id": TEXT}, restore_file, mutating=True),
    Tool("share_file", "Share a file", {"file_id": TEXT, "contact_id": TEXT}, share_file, mutating=True),
    Tool("find_item", "Items of a name", {"name": TEXT}, _finding("shop", "price")),
    Tool(
        "add_to_cart",
        "Put an item into the cart",
        {"item_id": TEXT},
        _setting("shop", "list", "cart", "in the cart"),
        mutating=True,
    ),
    Tool(
        "add_to_wishlist",
        "Put an item on the wishlist",
        {"item_id": TEXT},
        _setting("shop", "list", "wishlist", "in the wishlist"),
        mutating=True,
    ),
    Tool("balance", "What the wallet holds", {}, balance),
    Tool("top_up", "Fill the wallet up", {"amount": AMOUNT}, top_up, mutating=True),
    Tool("pay", "Pay a contact", {"contact_id": TEXT, "amount": AMOUNT}, pay, mutating=True),
    Tool(
        "request_money",
        "Ask a contact for money",
        {"contact_id": TEXT, "amount": AMOUNT},
        request_money,
        mutating=True,
    ),
    Tool("unlock", "Unlock an app", {"app": APP}, unlock, mutating=True),
    Tool("lock", "Lock an app", {"app": APP}, lock, mutating=True),
    Tool(
        COMPLETE,
        "End the task, with its answer if it asks for one",
        {"answer": TEXT},
        lambda state: "ok",
        frozenset({"answer"}),
    ),
]

TOOLS: dict[str, Tool] = {tool.name: tool for tool in _TOOLS}
MUTATING: frozenset[str] = frozenset(tool.name for tool in _TOOLS if tool.mutating)
LOOKALIKES: dict[str, list[str]] = {
    tool.name: [
        other.name
        for other in _TOOLS
        if other.name != tool.name and other.mutating and set(other.arguments) == set(tool.arguments)
    ]
    for tool in _TOOLS
    if tool.mutating
}
# The variant "shifted": the same apps after a redesign. Old names are refused with the new one.
SHIFTED_TOOLS = {
    "find_mail": "search_mail",
    "archive_mail": "store_mail",
    "pay": "transfer_money",
    "add_event": "create_event",
    "share_file": "grant_file",
    "add_to_cart": "put_in_basket",
    "block_contact": "mute_contact",
}
SHIFTED_ARGUMENTS = {"contact_id": "person_id", "day": "weekday"}
