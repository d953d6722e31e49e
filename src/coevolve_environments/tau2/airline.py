"""τ²-bench's airline: users, their reservations and flights on the days of May 2024."""

import copy
import json
from collections import Counter
from typing import TypedDict

from coevolve.environments.hosted import Hosted
from coevolve_environments.tau2.domain import REQUIREMENTS, Domain, Record, Tau2, paid, tables

NOW = "2024-05-15T15:00:00"  # the time in the airline's world
RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")  # ids of new reservations, in this order
CERTIFICATES = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
INSURANCE, BAGGAGE = 30, 50  # dollars per passenger, and per bag that is not free
AIRPORTS = {
    "ATL": "Atlanta", "BOS": "Boston", "CLT": "Charlotte", "DEN": "Denver", "DFW": "Dallas", "DTW": "Detroit", "EWR": "Newark",
    "IAH": "Houston", "JFK": "New York", "LAS": "Las Vegas", "LAX": "Los Angeles", "LGA": "LaGuardia", "MCO": "Orlando",
    "MIA": "Miami", "MSP": "Minneapolis", "ORD": "Chicago", "PHL": "Philadelphia", "PHX": "Phoenix", "SEA": "Seattle",
    "SFO": "San Francisco",
}  # fmt: skip


class Leg(TypedDict):
    flight_number: str
    date: str


class Passenger(TypedDict):
    first_name: str
    last_name: str
    dob: str


class Payment(TypedDict):
    payment_id: str
    amount: int


class Airline(Domain):
    """An airline. Its tools may allow actions that its policy forbids, so an agent must know the policy."""

    name = "airline"

    def get_user_details(self, user_id: str) -> str:
        """A user's name, address, membership, payment methods, saved passengers and reservations"""
        return json.dumps(self._read("users", user_id))

    def get_reservation_details(self, reservation_id: str) -> str:
        """A reservation's flights, passengers, cabin, bags, insurance and payments"""
        return json.dumps(self._read("reservations", reservation_id))

    def get_flight_status(self, flight_number: str, date: str) -> str:
        """Whether a flight of a day (YYYY-MM-DD) is available, delayed, on time, flying, landed or cancelled"""
        return str(self._day(flight_number, date)["status"])

    def list_all_airports(self) -> str:
        """All airports, with their cities"""
        return json.dumps(AIRPORTS)

    def search_direct_flight(self, origin: str, destination: str, date: str) -> str:
        """Direct flights between two airports on a day (YYYY-MM-DD), with seats and prices by cabin"""
        return json.dumps(self._flights(date, origin, destination))

    def search_onestop_flight(self, origin: str, destination: str, date: str) -> str:
        """Pairs of flights between two airports with one stop, of which the first leaves on a day (YYYY-MM-DD)"""
        found = []
        for first in self._flights(date, origin):
            lands = first["scheduled_arrival_time_est"]
            day = _after(date) if "+1" in lands else date
            found += [[first, then] for then in self._flights(day, first["destination"], destination, lands)]
        return json.dumps(found)

    def book_reservation(
        self,
        user_id: str,
        origin: str,
        destination: str,
        flight_type: str,
        cabin: str,
        flights: list[Leg],
        passengers: list[Passenger],
        payment_methods: list[Payment],
        total_baggages: int,
        nonfree_baggages: int,
        insurance: str,
    ) -> str:
        """Book flights (one_way or round_trip; basic_economy, economy or business), with insurance yes or no; payments must add up to the price"""
        name = next((one for one in RESERVATIONS if one not in self._keys("reservations")), None)
        if name is None:
            raise ValueError("no more reservations can be made")
        legs = [self._leg(one, cabin, len(passengers)) for one in flights]
        price = len(passengers) * (sum(one["price"] for one in legs) + INSURANCE * (insurance == "yes"))
        price += BAGGAGE * nonfree_baggages
        user = self._own("users", user_id)
        amounts: Counter[str] = Counter()
        for one in payment_methods:
            amounts[one["payment_id"]] += one["amount"]
        for payment, amount in amounts.items():
            method = paid(user["payment_methods"], payment)
            if method["source"] in ("gift_card", "certificate") and method["amount"] < amount:
                raise ValueError(f"{payment} does not cover {amount}")
        if (given := sum(one["amount"] for one in payment_methods)) != price:
            raise ValueError(f"the price is {price}, and the payments add up to {given}")
        for payment, amount in amounts.items():
            method = user["payment_methods"][payment]
            if method["source"] == "gift_card":
                method["amount"] -= amount
            elif method["source"] == "certificate":  # the rest of its value is lost
                del user["payment_methods"][payment]
        for leg in legs:
            self._own("flights", leg["flight_number"])["dates"][leg["date"]]["available_seats"][cabin] -= len(
                passengers
            )
        made = {
            "reservation_id": name, "user_id": user_id, "origin": origin, "destination": destination, "flight_type": flight_type,
            "cabin": cabin, "flights": legs, "passengers": copy.deepcopy(passengers),
            "payment_history": copy.deepcopy(payment_methods), "created_at": NOW, "total_baggages": total_baggages,
            "nonfree_baggages": nonfree_baggages, "insurance": insurance,
        }  # fmt: skip
        self.changed.setdefault("reservations", {})[name] = made
        user["reservations"].append(name)
        return self._settled(made)

    def cancel_reservation(self, reservation_id: str) -> str:
        """Cancel a whole reservation and refund what was paid"""
        one = self._own("reservations", reservation_id)
        back = [{**payment, "amount": -payment["amount"]} for payment in one["payment_history"]]
        one["payment_history"] += back
        one["status"] = "cancelled"
        return self._settled(one)

    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> str:
        """Change how many bags a reservation has, and how many of them are not free; more of these are paid for"""
        one = self._own("reservations", reservation_id)
        more = max(0, nonfree_baggages - one["nonfree_baggages"])
        self._pay(one, payment_id, BAGGAGE * more)
        one |= {"total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
        return self._settled(one)

    def update_reservation_flights(self, reservation_id: str, cabin: str, flights: list[Leg], payment_id: str) -> str:
        """Change the flights or the cabin of a reservation; all flights must be named, also those that stay"""
        one = self._own("reservations", reservation_id)
        people = len(one["passengers"])
        as_before = {(leg["flight_number"], leg["date"]): leg for leg in one["flights"] if cabin == one["cabin"]}
        legs = [as_before.get((leg["flight_number"], leg["date"])) or self._leg(leg, cabin, people) for leg in flights]
        price = people * (sum(leg["price"] for leg in legs) - sum(leg["price"] for leg in one["flights"]))
        self._pay(one, payment_id, price)
        one |= {"flights": legs, "cabin": cabin}
        return self._settled(one)

    def update_reservation_passengers(self, reservation_id: str, passengers: list[Passenger]) -> str:
        """Change who flies with a reservation; there must be as many as before"""
        one = self._own("reservations", reservation_id)
        if len(passengers) != len(one["passengers"]):
            raise ValueError(f"the reservation is for {len(one['passengers'])} passengers")
        one["passengers"] = copy.deepcopy(passengers)
        return self._settled(one)

    def send_certificate(self, user_id: str, amount: int) -> str:
        """Give a user a certificate of so many dollars"""
        user = self._own("users", user_id)
        name = next((one for one in CERTIFICATES if one not in user["payment_methods"]), None)
        if name is None:
            raise ValueError("the user cannot be given more certificates")
        user["payment_methods"][name] = {"source": "certificate", "id": name, "amount": amount}
        return self._settled(user["payment_methods"][name])

    def _day(self, flight_number: str, date: str) -> Record:
        found: Record | None = self._read("flights", flight_number)["dates"].get(date)
        if found is None:
            raise ValueError(f"flight {flight_number[:60]} does not fly on {date[:60]}")
        return found

    def _flights(self, date: str, origin: str, destination: str | None = None, after: str = "") -> list[Record]:
        """The available flights from ``origin`` to ``destination`` or anywhere that leave at ``after`` or later."""
        found = []
        for key in tables(self.name)["flights"]:
            one = self._read("flights", key)
            day = one["dates"].get(date, {})
            fits = one["origin"] == origin and destination in (None, one["destination"])
            if fits and day.get("status") == "available" and one["scheduled_departure_time_est"] >= after:
                told = {name: value for name, value in one.items() if name != "dates"}
                seats, prices = day["available_seats"], day["prices"]
                found.append({**told, "date": date, "available_seats": seats, "prices": prices})
        return found

    def _leg(self, wanted: Leg, cabin: str, people: int) -> Record:
        """A flight in the form of a reservation, if it has enough seats."""
        number, date = wanted["flight_number"], wanted["date"]
        flight, day = self._read("flights", number), self._day(number, date)
        if day["status"] != "available":
            raise ValueError(f"flight {number} is not available on {date}")
        if cabin not in day["prices"]:
            raise ValueError(f"the cabin must be one of: {', '.join(day['prices'])}")
        if day["available_seats"][cabin] < people:
            raise ValueError(f"flight {number} has not enough seats on {date}")
        ends = {name: flight[name] for name in ("origin", "destination")}
        return {"flight_number": number, **ends, "date": date, "price": day["prices"][cabin]}

    def _pay(self, reservation: Record, payment_id: str, price: int) -> None:
        """Pay ``price`` for a change of the reservation, or refund it if it is negative."""
        user = self._own("users", reservation["user_id"])
        method = paid(user["payment_methods"], payment_id)
        if method["source"] == "certificate":
            raise ValueError("a change cannot be paid by a certificate")
        if method["source"] == "gift_card":
            if method["amount"] < price:
                raise ValueError("the gift card does not cover it")
            method["amount"] -= price
        if price:
            reservation["payment_history"].append({"payment_id": payment_id, "amount": price})


def _after(date: str) -> str:
    """The next day in May 2024; no flight is in the air at the end of that month."""
    return f"{date[:-2]}{int(date[-2:]) + 1:02d}"


class Tau2Airline(Tau2):
    name = "tau2_airline"
    simulator = Airline
    version = "0.2.0-1"


HOSTED = Hosted("tau2_airline", f"{__name__}:Tau2Airline", REQUIREMENTS, each=256)
