"""Phrases learned from training tasks: what they say, and that they describe the tasks that taught them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from coevolve.core.seeding import rng_for
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.chains import replay
from coevolve.environments.environment import Environment, Phrasebook
from coevolve.environments.knowledge import learn
from coevolve.environments.methods import MethodEnvironment, Question
from coevolve.environments.registry import make
from coevolve.words.learned_phrases import learned_phrases, phrases_of
from coevolve.words.phrase_generator import Undescribable, instruct, instructions, sentence_of
from tests.unit.environments.helpdesk import Helpdesk


class Shop:
    """A simulator with nested arguments, lists, and answers that are printed Python values."""

    def __init__(self, orders: list[dict[str, Any]]) -> None:
        self.orders = orders

    def find_orders(self, customer: str) -> str:
        """Find the orders of a customer."""
        return str([one for one in self.orders if one["customer"] == customer])

    def cancel(self, order_id: str) -> str:
        """Cancels an order."""
        self._of(order_id)["state"] = "cancelled"
        return "ok"

    def set_priority(self, order_id: str, priority: str) -> str:
        """Set how urgent an order is."""
        self._of(order_id)["priority"] = priority
        return "ok"

    def pack(self, order_id: str, extras: list[str], gift: bool = False) -> str:
        """Pack an order, with extras. Returns `order_id`."""
        self._of(order_id)["extras"] = [*extras, gift]
        return order_id

    def _of(self, order_id: str) -> dict[str, Any]:
        for one in self.orders:
            if one["id"] == order_id:
                return one
        raise ValueError(f"there is no order {order_id}")


ORDERS = [
    {"id": f"o-{number}", "customer": customer, "item": item, "state": "open", "priority": "low", "extras": []}
    for number, (customer, item) in enumerate([("Ada Holm", "lamp"), ("Bo Lund", "desk"), ("Ada Holm", "chair")])
]


class Orders(MethodEnvironment):
    """Tasks of a shop: ``asked`` are (instruction, calls)."""

    name, simulator = "orders", Shop
    asked: Sequence[tuple[str, list[ToolCall]]] = ()

    def questions(self, split: str) -> Iterator[Question]:
        for words, calls in self.asked if split == "seed" else ():
            yield words, {"orders": ORDERS}, calls


def orders(*asked: tuple[str, list[ToolCall]]) -> Orders:
    environment = Orders()
    environment.asked = asked
    return environment


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool, arguments)


def chain_of(environment: Environment, *calls: ToolCall) -> list[CallOutcome]:
    world = {"orders": ORDERS}
    with closing(environment.open()) as session:
        chain = replay(session, Task.create("orders", "seed", [""], world, [list(calls)])).chain
    assert all(one.ok for one in chain)
    return chain


def said(environment: Environment, *calls: ToolCall) -> str:
    """The words for the last of ``calls``."""
    chain = chain_of(environment, *calls)
    return instruct(chain, [len(chain) - 1], None, phrases_of(environment), rng_for("words", 0))


FIND = call("find_orders", customer="Bo Lund")


def test_words_of_the_support_desk_become_phrases() -> None:
    book = learned_phrases(Helpdesk()).book
    assert book.actions["refund"] == ["refund {amount} euros to {search_customers.name}"]
    assert book.actions["set_status"] == ["set {ticket_id} to {status}"]
    assert book.actions["assign"] == ["give {ticket_id} to the {agent.value} team"]
    assert book.lookups["search_tickets"] == ["the ticket about the {text}", "the {text} ticket"]
    assert book.lookups["ticket_id"] == ["ticket {ticket_id}"]


@pytest.mark.parametrize("name", ["helpdesk", "bfcl_single"])
def test_learned_phrases_describe_the_tasks_that_taught_them(name: str) -> None:
    environment = Helpdesk() if name == "helpdesk" else make(name)
    learned = learned_phrases(environment)
    unread = {words for words, _ in learned.unread}
    tasks = [task for task in environment.tasks("seed")[:60] if len(task.turns) == 1 and task.turns[0] not in unread]
    described = 0
    with closing(environment.open()) as session:
        for task in tasks:
            played = replay(session, task)
            chain, changed = played.chain, played.changed
            if played.ended or not chain:
                continue
            asks = [row for row in range(len(chain)) if changed[row]] or [len(chain) - 1]
            pattern = instructions(chain, asks, None, learned.book)
            described += pattern.fullmatch(task.turns[0]) is not None
    assert described >= 0.9 * len(tasks), f"{described} of {len(tasks)}"


def test_implied_value_restricts_its_phrase() -> None:
    urgent = ("Make the order of Bo Lund urgent", [FIND, call("set_priority", order_id="o-1", priority="high")])
    environment = orders(urgent)
    assert said(environment, FIND, call("set_priority", order_id="o-1", priority="high")) == urgent[0]
    other = said(environment, FIND, call("set_priority", order_id="o-1", priority="none"))
    assert "urgent" not in other or "none" in other


def test_one_of_several_results_is_told_apart_by_its_record() -> None:
    both = [call("find_orders", customer="Ada Holm"), call("cancel", order_id="o-2")]
    environment = orders(("Ada Holm does not want the chair any more", both))
    assert said(environment, call("find_orders", customer="Ada Holm"), call("cancel", order_id="o-0")) == (
        "Ada Holm does not want the lamp any more"
    )


def test_result_that_nothing_tells_apart_has_no_words() -> None:
    twins = [{**ORDERS[0], "id": name, "parcel_id": name[2:]} for name in ("o-7", "o-8")]
    calls = [call("find_orders", customer="Ada Holm"), call("cancel", order_id="o-8")]
    environment = orders()
    with closing(environment.open()) as session:
        chain = replay(session, Task.create("orders", "seed", [""], {"orders": twins}, [calls])).chain
    with pytest.raises(Undescribable):
        instruct(chain, [1], None, phrases_of(environment), rng_for("words", 0))


def test_number_that_no_call_takes_makes_a_task_unread() -> None:
    stray = ("cancel the 2 orders of Bo Lund", [FIND, call("cancel", order_id="o-1")])
    learned = learned_phrases(orders(stray))
    assert "cancel" not in learned.book.actions
    assert learned.unread == [(stray[0], "it names 2, which no call takes")]


@pytest.mark.parametrize(
    ("words", "english"),
    [("cancel order o-1", True), ("storniere bitte die Bestellung o-1", False), ("bitte order o-1 canceln", False)],
)
def test_terse_commands_in_the_words_of_english_tools_are_english(words: str, english: bool) -> None:
    assert learned_phrases(orders((words, [call("cancel", order_id="o-1")]))).book.english is english


def test_second_mention_is_not_described_again() -> None:
    environment = orders()
    chain = chain_of(
        environment, FIND, call("set_priority", order_id="o-1", priority="high"), call("cancel", order_id="o-1")
    )
    words = instruct(chain, [1, 2], None, phrases_of(environment), rng_for("words", 0))
    assert words.count("Bo Lund") == 1
    assert words.endswith("cancel that order")


def test_another_order_than_the_last_is_described_again() -> None:
    """ "That order" would be the other one."""
    chain = chain_of(
        orders(),
        FIND,
        call("set_priority", order_id="o-1", priority="high"),
        call("set_priority", order_id="o-0", priority="high"),
        call("cancel", order_id="o-1"),
    )
    words = instruct(chain, [1, 2, 3], None, phrases_of(orders()), rng_for("words", 0))
    assert words.endswith("cancel the order for Bo Lund")


def test_part_that_leaves_a_value_to_another_part_is_no_phrase() -> None:
    pack = call("pack", order_id="o-1", extras=["card"])
    asked = (
        ("pack the order of Bo Lund with card and set the priority to high", "high"),
        ("pack the order of Bo Lund with card and make it none", "none"),
    )
    environment = orders(
        *((words, [FIND, pack, call("set_priority", order_id="o-1", priority=to)]) for words, to in asked)
    )
    book = learned_phrases(environment).book
    assert book.actions["pack"] == ["pack {order_id} with {extras}"]
    assert "set_priority" not in book.actions
    assert not learned_phrases(environment).unread


def test_words_for_several_values_decide_none_of_them() -> None:
    to = [call("set_priority", order_id="o-1", priority=priority) for priority in ("high", "none")]
    same = orders(*(("please change order o-1", [one]) for one in to))
    assert "set_priority" not in learned_phrases(same).book.actions
    told = orders(("please hurry order o-1", to[:1]), ("please delay order o-1", to[1:]))
    assert len(learned_phrases(told).book.actions["set_priority"]) == 2


def test_names_keep_their_capitals_where_requests_are_joined() -> None:
    asked = ("Bo Lund wants to cancel.", [FIND, call("cancel", order_id="o-1")])
    chain = chain_of(orders(asked), call("cancel", order_id="o-0"), *asked[1])
    words = instruct(chain, [0, 2], None, phrases_of(orders(asked)), rng_for("words", 0))
    assert re.fullmatch(r"[Cc]ancel order o-0(?: and |, then )Bo Lund wants to cancel\.?", words), words


class Garden:
    def where_is(self, crop: str) -> dict[str, str]:
        """Look up where a crop grows."""
        return {"bed": f"{crop} bed", "crop": crop}

    def water(self, bed: str) -> str:
        """Water a bed."""
        return bed


class Gardening(Orders):
    name, simulator = "gardening", Garden


def test_lookup_whose_name_ends_with_no_noun_is_described_by_its_value() -> None:
    task = Task.create("gardening", "seed", [""], {}, [[call("where_is", crop="mint"), call("water", bed="mint bed")]])
    with closing(Gardening().open()) as session:
        chain = replay(session, task).chain
    words = instruct(chain, [1], None, Phrasebook(revealed=("water.bed",)), rng_for("words", 0))
    assert "the bed of mint" in words


class Ferry:
    """Its argument ``booking`` is an id by its values, and no word of its name says so."""

    def find_booking(self, name: str) -> dict[str, str]:
        """Find the booking of a person."""
        return {"booking": f"B{len(name)}", "name": name}

    def cancel_booking(self, booking: str) -> str:
        """Cancel a booking."""
        return f"{booking} is cancelled"


class Booking(Orders):
    name, simulator = "booking", Ferry

    def questions(self, split: str) -> Iterator[Question]:
        for name in ("Ada Holm", "Bo Lund") if split == "seed" else ():
            booked = call("cancel_booking", booking=f"B{len(name)}")
            yield f"please take out the full booking of {name}", {}, [call("find_booking", name=name), booked]
            yield f"please take out {booked.arguments['booking']}", {}, [booked]


def test_learned_description_of_a_thing_is_its_whole_description() -> None:
    """Not "the booking of the full booking of Cy Blum"."""
    environment = Booking()
    calls = [call("find_booking", name="Cy Blum"), call("cancel_booking", booking="B7")]
    with closing(environment.open()) as session:
        chain = replay(session, Task.create("booking", "seed", [""], {}, [calls])).chain
    words = instruct(chain, [1], None, phrases_of(environment), rng_for("words", 0))
    assert words == "please take out the full booking of Cy Blum"


def test_value_that_the_agent_gave_to_another_argument_is_not_known() -> None:
    asked = ("set the priority of order o-1 to high", [call("set_priority", order_id="o-1", priority="high")])
    [task] = orders(asked).tasks("seed")
    calls = [CallOutcome("set_priority", {"order_id": "o-1", "priority": "order"}, True, "ok")]
    played = Trajectory(
        "a", task.task_id, 0, 0, 0, 0, [{"role": "user", "content": asked[0]}], calls, 0.0, StopReason.DONE
    )
    assert learn(orders(asked), [task], [played]).values["set_priority", "priority"] == ["high"]


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([FIND, call("cancel", order_id="o-1")], "cancel the order for Bo Lund"),
        ([call("cancel", order_id="o-1")], "cancel order o-1"),
        ([call("pack", order_id="o-1", extras=["paper", "card"])], "pack order o-1 with extras paper and card"),
        ([call("pack", order_id="o-1", extras=["card"], gift=True)], "pack order o-1 with gift and extras card"),
    ],
)
def test_tool_that_no_task_uses_is_described_by_what_it_does(calls: list[ToolCall], words: str) -> None:
    assert said(orders(), *calls) == words


@pytest.mark.parametrize(
    ("name", "description", "sentence"),
    [
        ("add_note", "Adds a note to a ticket. Returns the id.", "add a note to a ticket"),
        ("search", "Searches `order_id` by words; at most ten.", "search order id by words"),
        ("book", "Say who has a book, and return the loan.", "say who has a book"),
    ],
)
def test_description_of_a_tool_becomes_an_imperative(name: str, description: str, sentence: str) -> None:
    assert sentence_of(name, description) == sentence
