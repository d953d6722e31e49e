"""Our tools for the data of τ²-bench's retail and airline, in their workers."""

import json
from collections.abc import Iterator
from typing import Any

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
ORDER, CARD, CREDIT = "#W6779827", "gift_card_7219486", "credit_card_9789590"
ITEMS = ["7896397433", "1323134954"]


def variants(session: Session, product: str, old: str, available: bool = True) -> list[dict[str, Any]]:
    """Other items of the product."""
    found = json.loads(answer(session, "get_product_details", product_id=product))["variants"].values()
    return [one for one in found if one["available"] is available and one["item_id"] != old]


def test_cancelled_order_is_refunded_to_its_gift_card(retail: Session) -> None:
    assert answer(retail, "find_user_id_by_email", email="Ethan.Lopez8943@EXAMPLE.com") == "ethan_lopez_6291"
    assert "the reason must be" in refused(retail, "cancel_pending_order", order_id=ORDER, reason="bored")
    done = json.loads(answer(retail, "cancel_pending_order", order_id=ORDER, reason="no longer needed"))
    assert done["status"] == "cancelled" and [one["amount"] for one in done["payment_history"]] == [4079.45] * 2
    user = json.loads(answer(retail, "get_user_details", user_id="ethan_lopez_6291"))
    assert user["payment_methods"][CARD]["balance"] == 4128.45
    assert "only a pending order" in refused(retail, "cancel_pending_order", order_id=ORDER, reason="no longer needed")


def test_items_of_a_pending_order_are_exchanged_once_at_their_own_price(retail: Session) -> None:
    products = ["7233192239", "7996920482"]
    new = [max(variants(retail, *pair), key=lambda one: one["price"]) for pair in zip(products, ITEMS, strict=True)]
    ids = [one["item_id"] for one in new]
    change = {"order_id": ORDER, "item_ids": ITEMS, "payment_method_id": CREDIT}
    assert "as many new items" in refused(retail, "modify_pending_order_items", **change, new_item_ids=ids[:1])
    assert "no available variant" in refused(retail, "modify_pending_order_items", **change, new_item_ids=ids[::-1])
    assert "another than the old" in refused(retail, "modify_pending_order_items", **change, new_item_ids=ITEMS)
    there_is_none = {**change, "payment_method_id": "credit_card_0"}
    assert "there is no payment method" in refused(
        retail, "modify_pending_order_items", **there_is_none, new_item_ids=ids
    )
    done = json.loads(answer(retail, "modify_pending_order_items", **change, new_item_ids=ids))
    now = {one["item_id"]: one["price"] for one in done["items"]}
    assert [now[one["item_id"]] for one in new] == [one["price"] for one in new] and not set(now) & set(ITEMS)
    difference = sum(one["price"] for one in new) - 457.81 - 236.95
    assert done["payment_history"][-1]["amount"] == pytest.approx(abs(difference))
    assert "and once" in refused(retail, "modify_pending_order_items", **change, new_item_ids=ids)
    answer(retail, "modify_pending_order_address", order_id=ORDER, **ADDRESS)  # still pending


ADDRESS = {
    "address1": "1 Main Street", "address2": "", "city": "Boston", "state": "MA", "country": "USA", "zip": "02101"
}  # fmt: skip


USER, TRIP = "harper_garcia_8677", "CDXEBS"
PASSENGER = {"first_name": "Ada", "last_name": "Byron", "dob": "1980-12-10"}


def test_booking_takes_seats_and_payment(airline: Session) -> None:
    booking = {
        "user_id": USER, "origin": "PHL", "destination": "LGA", "flight_type": "one_way", "cabin": "economy",
        "flights": [{"flight_number": "HAT001", "date": "2024-05-20"}], "passengers": [PASSENGER] * 2,
        "total_baggages": 3, "nonfree_baggages": 1, "insurance": "yes",
    }  # fmt: skip
    price = 2 * (137 + 30) + 50

    def pay(**amounts: int) -> list[dict[str, Any]]:
        return [{"payment_id": name, "amount": amount} for name, amount in amounts.items()]

    by = {"certificate_6803610": 150, "gift_card_8173468": price - 150}
    wrong = {**by, "gift_card_8173468": 1}
    assert f"the price is {price}" in refused(airline, "book_reservation", **booking, payment_methods=pay(**wrong))
    assert "does not cover" in refused(
        airline, "book_reservation", **booking, payment_methods=pay(certificate_6803610=price)
    )
    twice = pay(gift_card_8173468=price // 2) * 2  # the card covers either, but not both
    assert "does not cover" in refused(airline, "book_reservation", **booking, payment_methods=twice)
    many = {**booking, "passengers": [PASSENGER] * 18}
    assert "not enough seats" in refused(airline, "book_reservation", **many, payment_methods=pay(**by))
    made = json.loads(answer(airline, "book_reservation", **booking, payment_methods=pay(**by)))
    user = json.loads(answer(airline, "get_user_details", user_id=USER))
    assert user["reservations"][-1] == made["reservation_id"] == "HATHAT"
    assert "certificate_6803610" not in user["payment_methods"]
    assert user["payment_methods"]["gift_card_8173468"]["amount"] == 284 - (price - 150)
    route = {"origin": "PHL", "destination": "LGA", "date": "2024-05-20"}
    flights = json.loads(answer(airline, "search_direct_flight", **route))
    assert next(one for one in flights if one["flight_number"] == "HAT001")["available_seats"]["economy"] == 15


def test_change_is_paid_by_a_permitted_method_only(airline: Session) -> None:
    bags = {"reservation_id": TRIP, "total_baggages": 3, "nonfree_baggages": 1}
    tool = "update_reservation_baggages"
    assert "certificate" in refused(airline, tool, **bags, payment_id="certificate_6803610")
    assert "does not cover" in refused(airline, tool, **bags, payment_id="gift_card_2663401")  # 5 dollars
    done = json.loads(answer(airline, tool, **bags, payment_id="gift_card_8173468"))
    assert done["payment_history"][-1] == {"payment_id": "gift_card_8173468", "amount": 50}
    flights = [{"flight_number": one["flight_number"], "date": one["date"]} for one in done["flights"]]
    same = {"reservation_id": TRIP, "cabin": "economy", "flights": flights, "payment_id": "credit_card_5865555"}
    before = airline.digest()
    answer(airline, "update_reservation_flights", **same)
    assert airline.digest() == before, "what stays costs nothing"
    cancelled = json.loads(answer(airline, "cancel_reservation", reservation_id=TRIP))
    assert sum(one["amount"] for one in cancelled["payment_history"]) == 0


def test_calculate_accepts_only_arithmetic(retail: Session) -> None:
    for expression in ("2 ** 99999999", "__import__('os')", "1 / 0", "(" * 150 + "1", "'a' * 3", "True + x", ""):
        assert "expected an expression" in refused(retail, "calculate", expression=expression)
    assert answer(retail, "calculate", expression="(4.5 - 1) / 2 * -3") == "-5.25"
