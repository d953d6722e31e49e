"""τ²-bench's retail: users, their orders and a shop's products."""

import json
from collections import Counter
from collections.abc import Callable, Sequence

from coevolve.environments.hosted import Hosted
from coevolve_environments.tau2.domain import REQUIREMENTS, Domain, Record, Tau2, paid, tables

Meant = Callable[[Record], bool]
REASONS = ("no longer needed", "ordered by mistake")


class Retail(Domain):
    """A shop. If several items are exchanged, each has its own price (in τ²'s code, all have the price of the last)."""

    name = "retail"

    def find_user_id_by_email(self, email: str) -> str:
        """Find a user's id by their email"""
        return self._user(lambda one: one["email"].lower() == email.lower())

    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Find a user's id by first name, last name and zip code"""
        wanted = (first_name.lower(), last_name.lower(), zip)

        def meant(one: Record) -> bool:
            name = one["name"]
            return (name["first_name"].lower(), name["last_name"].lower(), one["address"]["zip"]) == wanted

        return self._user(meant)

    def get_user_details(self, user_id: str) -> str:
        """A user's name, address, email, payment methods and orders"""
        return json.dumps(self._read("users", user_id))

    def get_order_details(self, order_id: str) -> str:
        """An order's items, address, status and payments; its id begins with #W"""
        return json.dumps(self._read("orders", order_id))

    def get_product_details(self, product_id: str) -> str:
        """A product's variants: items with their options, prices and whether they are available"""
        return json.dumps(self._read("products", product_id))

    def get_item_details(self, item_id: str) -> str:
        """One variant of a product, by its item id"""
        for one in tables(self.name)["products"].values():
            if item_id in one["variants"]:
                return json.dumps(one["variants"][item_id])
        raise ValueError(f"there is no item {item_id[:60]}")

    def list_all_product_types(self) -> str:
        """Names of all products, with their product ids"""
        found = {one["name"]: key for key, one in tables(self.name)["products"].items()}
        return json.dumps(found, sort_keys=True)

    def cancel_pending_order(self, order_id: str, reason: str) -> str:
        """Cancel a pending order and refund it; the reason is: no longer needed, or ordered by mistake"""
        if self._read("orders", order_id)["status"] != "pending":
            raise ValueError("only a pending order can be cancelled")
        if reason not in REASONS:
            raise ValueError(f"the reason must be one of: {', '.join(REASONS)}")
        order = self._own("orders", order_id)
        for one in list(order["payment_history"]):
            self._refund(order, one["amount"], one["payment_method_id"])
        order |= {"status": "cancelled", "cancel_reason": reason}
        return self._settled(order)

    def modify_pending_order_address(
        self, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> str:
        """Change where a pending order is sent"""
        self._pending(order_id)
        return self._readdress("orders", order_id, address1, address2, city, state, country, zip)

    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> str:
        """Exchange items of a pending order for others of the same products, once; the difference is paid or refunded by the payment method"""
        if self._read("orders", order_id)["status"] != "pending":
            raise ValueError("only the items of a pending order can be changed, and once")
        pairs = self._exchanged(order_id, item_ids, new_item_ids)
        if any(item["item_id"] == other["item_id"] for item, other in pairs):
            raise ValueError("a new item must be another than the old one")
        difference = round(sum(other["price"] - item["price"] for item, other in pairs), 2)
        order = self._own("orders", order_id)
        self._covered(order, payment_method_id, difference)
        kind = "payment" if difference > 0 else "refund"
        self._book(order, kind, abs(difference), payment_method_id)
        self._move(order["user_id"], payment_method_id, -difference)
        left = order["items"].copy()
        for item, other in pairs:
            found = next(one for one in left if one["item_id"] == item["item_id"])
            left = [one for one in left if one is not found]
            found |= {"item_id": other["item_id"], "price": other["price"], "options": dict(other["options"])}
        order["status"] = "pending (item modified)"
        return self._settled(order)

    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> str:
        """Pay a pending order by another method, which must cover all of it"""
        self._pending(order_id)
        order = self._own("orders", order_id)
        history = order["payment_history"]
        if len(history) != 1 or history[0]["transaction_type"] != "payment":
            raise ValueError("the order must have exactly one payment")
        amount, before = history[0]["amount"], history[0]["payment_method_id"]
        if before == payment_method_id:
            raise ValueError("the order is paid by this method already")
        self._covered(order, payment_method_id, amount)
        self._book(order, "payment", amount, payment_method_id)
        self._move(order["user_id"], payment_method_id, -amount)
        self._refund(order, amount, before)
        return self._settled(order)

    def modify_user_address(
        self, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> str:
        """Change a user's address; orders keep theirs"""
        return self._readdress("users", user_id, address1, address2, city, state, country, zip)

    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> str:
        """Ask to exchange items of a delivered order for others of the same products"""
        self._delivered(order_id)
        pairs = self._exchanged(order_id, item_ids, new_item_ids)
        difference = round(sum(other["price"] - item["price"] for item, other in pairs), 2)
        order = self._own("orders", order_id)
        self._covered(order, payment_method_id, difference)
        order |= {
            "status": "exchange requested",
            "exchange_items": sorted(item_ids),
            "exchange_new_items": sorted(new_item_ids),
            "exchange_payment_method_id": payment_method_id,
            "exchange_price_difference": difference,
        }
        return self._settled(order)

    def return_delivered_order_items(self, order_id: str, item_ids: list[str], payment_method_id: str) -> str:
        """Ask to return items of a delivered order; the refund goes to the method that paid, or to a gift card"""
        self._delivered(order_id)
        order = self._own("orders", order_id)
        method = paid(self._read("users", order["user_id"])["payment_methods"], payment_method_id)
        if method["source"] != "gift_card" and payment_method_id != order["payment_history"][0]["payment_method_id"]:
            raise ValueError("the refund must go to the method that paid, or to a gift card")
        self._held(order, item_ids)
        order |= {
            "status": "return requested", "return_items": sorted(item_ids), "return_payment_method_id": payment_method_id
        }  # fmt: skip
        return self._settled(order)

    def _user(self, meant: Meant) -> str:
        for key in self._keys("users"):
            if meant(self._read("users", key)):
                return key
        raise ValueError("there is no such user")

    def _pending(self, order_id: str) -> None:
        if "pending" not in self._read("orders", order_id)["status"]:
            raise ValueError("only a pending order can be changed")

    def _delivered(self, order_id: str) -> None:
        if self._read("orders", order_id)["status"] != "delivered":
            raise ValueError("only items of a delivered order can be sent back")

    def _held(self, order: Record, item_ids: Sequence[str]) -> None:
        """Check that ``order`` has all these items, each as often as it is named."""
        if missing := Counter(item_ids) - Counter(one["item_id"] for one in order["items"]):
            raise ValueError(f"the order has no item {next(iter(missing))[:60]}")

    def _exchanged(
        self, order_id: str, item_ids: Sequence[str], new_item_ids: Sequence[str]
    ) -> list[tuple[Record, Record]]:
        """The order's items, each with the variant that replaces it."""
        order = self._read("orders", order_id)
        self._held(order, item_ids)
        if not item_ids or len(item_ids) != len(new_item_ids):
            raise ValueError("there must be as many new items as old ones")
        pairs = []
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(one for one in order["items"] if one["item_id"] == old)
            variant = self._read("products", item["product_id"])["variants"].get(new)
            if variant is None or not variant["available"]:
                raise ValueError(f"item {new[:60]} is no available variant of {item['name']}")
            pairs.append((item, variant))
        return pairs

    def _covered(self, order: Record, method: str, amount: float) -> None:
        one = paid(self._read("users", order["user_id"])["payment_methods"], method)
        if one["source"] == "gift_card" and one["balance"] < amount:
            raise ValueError("the gift card's balance does not cover it")

    def _book(self, order: Record, kind: str, amount: float, method: str) -> None:
        order["payment_history"].append({"transaction_type": kind, "amount": amount, "payment_method_id": method})

    def _refund(self, order: Record, amount: float, method: str) -> None:
        self._book(order, "refund", amount, method)
        self._move(order["user_id"], method, amount)

    def _move(self, user_id: str, method: str, amount: float) -> None:
        """Add ``amount`` to a gift card. Other payment methods have no balance."""
        if paid(self._read("users", user_id)["payment_methods"], method)["source"] == "gift_card":
            card = self._own("users", user_id)["payment_methods"][method]
            card["balance"] = round(card["balance"] + amount, 2)

    def _readdress(
        self, table: str, key: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> str:
        record = self._own(table, key)
        record["address"] = {
            "address1": address1, "address2": address2, "city": city, "country": country, "state": state, "zip": zip
        }  # fmt: skip
        return self._settled(record)


class Tau2Retail(Tau2):
    name = "tau2_retail"
    simulator = Retail
    version = "0.1.0-1"


HOSTED = Hosted("tau2_retail", f"{__name__}:Tau2Retail", REQUIREMENTS, each=256)
