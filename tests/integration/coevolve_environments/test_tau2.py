"""τ²-bench's retail and airline by the tools of two wheels, in their workers."""

import json
from collections.abc import Iterator

import pytest

from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Session
from coevolve.environments.worker import WorkerEnvironment
from tests.hosted import installed
from tests.integration.coevolve_environments.test_hosted import opened

pytestmark = pytest.mark.skipif(
    not installed("tau2_retail"), reason="tau2_retail is not installed; run `coevolve env install tau2_retail`"
)


shop, flights = opened("tau2_retail"), opened("tau2_airline")


@pytest.fixture
def retail(shop: WorkerEnvironment) -> Iterator[Session]:
    yield from started(shop)


@pytest.fixture
def airline(flights: WorkerEnvironment) -> Iterator[Session]:
    yield from started(flights)


def started(world: WorkerEnvironment) -> Iterator[Session]:
    session = world.open()
    session.reset(Task.create(world.name, "x", ["?"], {}, [[]]))
    yield session
    session.close()


def answer(session: Session, tool: str, **arguments: object) -> str:
    told = session.step(ToolCall(tool, arguments))
    assert not told.error, told.content
    return told.content


def refused(session: Session, tool: str, **arguments: object) -> str:
    """The error of a call that is refused and changes nothing."""
    before = session.digest()
    told = session.step(ToolCall(tool, arguments))
    assert told.error and session.digest() == before
    return told.content


# of ethan_lopez_6291, who has 49 on the card
ORDER, CARD, USER = "#W6779827", "gift_card_7219486", "ethan_lopez_6291"
ADDRESS = {
    "address1": "1 Main Street", "address2": "", "city": "Boston", "state": "MA", "country": "USA", "zip": "02101"
}  # fmt: skip


def test_a_change_is_seen_by_later_calls_and_by_no_other_session(shop: WorkerEnvironment, retail: Session) -> None:
    assert answer(retail, "find_user_id_by_email", email="Ethan.Lopez8943@EXAMPLE.com") == USER
    refused(retail, "cancel_pending_order", order_id=ORDER, reason="bored")
    done = json.loads(answer(retail, "cancel_pending_order", order_id=ORDER, reason="no longer needed"))
    assert done["status"] == "cancelled"
    refused(retail, "cancel_pending_order", order_id=ORDER, reason="no longer needed")
    cards = [json.loads(answer(one, "get_user_details", user_id=USER))["payment_methods"][CARD]["balance"]
             for session in started(shop) for one in (retail, session)]  # fmt: skip
    assert cards == [4128.45, 49]


def test_reverted_change_restores_the_digest(retail: Session) -> None:
    before = retail.digest()
    first = json.loads(answer(retail, "get_user_details", user_id=USER))["address"]
    answer(retail, "modify_user_address", user_id=USER, **ADDRESS)
    assert retail.digest() != before
    answer(retail, "modify_user_address", user_id=USER, **first)
    assert retail.digest() == before


def test_a_call_that_fails_halfway_changes_nothing(airline: Session) -> None:
    """The second flight has no seats, and the user's certificate would be gone."""
    booking = {
        "user_id": "harper_garcia_8677", "origin": "PHL", "destination": "LGA", "flight_type": "one_way", "cabin": "economy",
        "flights": [{"flight_number": "HAT001", "date": "2024-05-20"}], "total_baggages": 0, "nonfree_baggages": 0,
        "insurance": "no", "passengers": [{"first_name": "Ada", "last_name": "Byron", "dob": "1980-12-10"}] * 2,
    }  # fmt: skip
    pay = [{"payment_id": "certificate_6803610", "amount": 150}, {"payment_id": "gift_card_8173468", "amount": 124}]
    nowhere = [*booking["flights"], {"flight_number": "HAT001", "date": "2023-05-20"}]
    refused(airline, "book_reservation", **{**booking, "flights": nowhere}, payment_methods=pay)
    refused(airline, "book_reservation", **booking, payment_methods=pay[:1])
    made = json.loads(answer(airline, "book_reservation", **booking, payment_methods=pay))
    user = json.loads(answer(airline, "get_user_details", user_id="harper_garcia_8677"))
    assert user["reservations"][-1] == made["reservation_id"] == "HATHAT"


def test_any_arguments_are_refused_or_answered(retail: Session) -> None:
    for expression in ("2 ** 99999999", "__import__('os')", "1 / 0", "(" * 150 + "1", "'a' * 3", ""):
        refused(retail, "calculate", expression=expression)
    assert answer(retail, "calculate", expression="(4.5 - 1) / 2 * -3") == "-5.25"
    refused(retail, "get_order_details", order_id=["#W1"])
    refused(retail, "get_order_details", order_id=ORDER, state_key="mine")
    refused(retail, "reset_state")
    assert "order" in answer(retail, "policy")
