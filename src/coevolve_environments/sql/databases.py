"""Small databases made from seeds, and questions about them.

A family of questions has words, a statement, and for each parameter a query that lists its possible values. So every question
is about existing rows.
"""

import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, lru_cache

from coevolve.core.seeding import rng_for

Row = tuple[object, ...]
FIRST = ("Ada", "Ben", "Cleo", "Dina", "Egon", "Fay", "Gus", "Hana", "Igor", "Juno", "Kai", "Lena", "Milo", "Nora",
         "Otto")  # fmt: skip
LAST = ("Abel", "Brand", "Cruz", "Dorn", "Ek", "Falk", "Gray", "Holm", "Ito", "Jung")
CITIES = ("Bath", "Bern", "Cork", "Gent", "Graz", "Kiel", "Lyon", "Nice", "Oslo", "Riga", "Turin", "Ulm")
OTHERS = 8  # further databases of a domain that show the possible values of its text columns
SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, joined TEXT NOT NULL);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, price INTEGER NOT NULL,
  stock INTEGER NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers,
  product_id INTEGER NOT NULL REFERENCES products, quantity INTEGER NOT NULL, day TEXT NOT NULL, status TEXT NOT NULL);
"""
LIBRARY = """
CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, born INTEGER NOT NULL);
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL, author TEXT NOT NULL, genre TEXT NOT NULL,
  year INTEGER NOT NULL, copies INTEGER NOT NULL);
CREATE TABLE loans (id INTEGER PRIMARY KEY, member_id INTEGER NOT NULL REFERENCES members,
  book_id INTEGER NOT NULL REFERENCES books, lent TEXT NOT NULL, returned TEXT);
"""
CLINIC = """
CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, born INTEGER NOT NULL);
CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT NOT NULL, field TEXT NOT NULL, fee INTEGER NOT NULL);
CREATE TABLE visits (id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL REFERENCES patients,
  doctor_id INTEGER NOT NULL REFERENCES doctors, day TEXT NOT NULL, minutes INTEGER NOT NULL);
"""


def _people(rng: random.Random, count: int) -> list[str]:
    return rng.sample([f"{first} {last}" for first in FIRST for last in LAST], count)


def _day(rng: random.Random) -> str:
    return f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _shop(rng: random.Random) -> dict[str, list[Row]]:
    goods = [("lamp", "light"), ("torch", "light"), ("candle", "light"), ("mug", "kitchen"), ("pan", "kitchen"),
             ("kettle", "kitchen"), ("rake", "garden"), ("spade", "garden"), ("hose", "garden"), ("tent", "camping"),
             ("stove", "camping"), ("map", "camping")]  # fmt: skip
    count, products = rng.randint(12, 18), len(goods)
    ordered = rng.sample(range(1, products + 1), products - 2)  # two are never ordered
    return {
        "customers": [(n, name, rng.choice(CITIES), _day(rng)) for n, name in enumerate(_people(rng, count), 1)],
        "products": [(n, name, kind, rng.randint(3, 90), rng.randint(0, 40)) for n, (name, kind) in enumerate(goods, 1)],
        "orders": [
            (n, rng.randint(1, count), rng.choice(ordered), rng.randint(1, 5), _day(rng),
             rng.choice(("pending", "shipped", "returned")))
            for n in range(1, rng.randint(40, 60))
        ],
    }  # fmt: skip


def _library(rng: random.Random) -> dict[str, list[Row]]:
    nouns = ("River", "Clock", "Garden", "Shadow", "Island", "Mirror", "Winter", "Harbour", "Forest", "Letter")
    count, authors = rng.randint(10, 16), _people(rng, 6)
    books: list[Row] = [
        (n, f"The {noun}", rng.choice(authors), rng.choice(("crime", "travel", "poetry", "history")),
         rng.randint(1950, 2025), rng.randint(1, 4))
        for n, noun in enumerate(nouns, 1)
    ]  # fmt: skip
    lent = rng.sample(range(1, len(books) + 1), len(books) - 2)
    return {
        "members": [
            (n, name, rng.choice(CITIES), rng.randint(1940, 2012)) for n, name in enumerate(_people(rng, count), 1)
        ],
        "books": books,
        "loans": [
            (n, rng.randint(1, count), rng.choice(lent), _day(rng), _day(rng) if rng.random() < 0.6 else None)
            for n in range(1, rng.randint(30, 50))
        ],
    }


def _clinic(rng: random.Random) -> dict[str, list[Row]]:
    count, doctors = rng.randint(10, 16), _people(rng, 6)
    return {
        "patients": [
            (n, name, rng.choice(CITIES), rng.randint(1935, 2020)) for n, name in enumerate(_people(rng, count), 1)
        ],
        "doctors": [
            (n, name, rng.choice(("skin", "heart", "eyes")), rng.randint(40, 200)) for n, name in enumerate(doctors, 1)
        ],
        "visits": [
            (n, rng.randint(1, count), rng.randint(1, len(doctors) - 1), _day(rng), rng.choice((10, 20, 30, 45)))
            for n in range(1, rng.randint(30, 50))
        ],
    }


@dataclass(frozen=True, slots=True)
class DatabaseDomain:
    schema: str
    rows: Callable[[random.Random], dict[str, list[Row]]]


DOMAINS = {
    "shop": DatabaseDomain(SHOP, _shop),
    "library": DatabaseDomain(LIBRARY, _library),
    "clinic": DatabaseDomain(CLINIC, _clinic),
}


def build(domain: str, seed: int) -> sqlite3.Connection:
    """A new database in memory. The same seed gives the same rows."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.deserialize(_image(domain, seed))
    return connection


@lru_cache(maxsize=512)
def _image(domain: str, seed: int) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(DOMAINS[domain].schema)
        for table, rows in DOMAINS[domain].rows(rng_for("sql database", domain, seed)).items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        return connection.serialize()


@cache
def columns_of(domain: str) -> dict[str, list[str]]:
    """The tables of a domain, and the name and type of each column."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(DOMAINS[domain].schema)
        return {
            name: [f"{row[1]} {row[2].lower()}" for row in connection.execute(f"PRAGMA table_info({name})")]
            for (name,) in connection.execute(tables).fetchall()
        }


def texts(domain: str, seed: int) -> frozenset[str]:
    """The values in the text columns of a database and of OTHERS databases of its domain, without dates."""
    return _texts(domain).union(_held(domain, seed))


@cache
def _texts(domain: str) -> frozenset[str]:
    people = (f"{first} {last}" for first in FIRST for last in LAST)
    return frozenset([*people, *CITIES]).union(*(_held(domain, seed) for seed in range(OTHERS)))


def _held(domain: str, seed: int) -> set[str]:
    with closing(build(domain, seed)) as connection:
        rows = [row for table in columns_of(domain) for row in connection.execute(f"SELECT * FROM {table}")]
    return {one for row in rows for one in row if isinstance(one, str) and not one[0].isdecimal()}


@dataclass(frozen=True, slots=True)
class Family:
    """``words`` and ``sql`` contain {parameters}. ``choices`` has a query or a list of values for each parameter."""

    name: str
    domain: str
    words: tuple[str, ...]
    sql: str
    choices: dict[str, str | tuple[object, ...]] = field(default_factory=dict)
    hard: bool = False

    @property
    def writes(self) -> bool:
        return not self.sql.startswith("SELECT")


FAMILIES = (
    Family("customers_of_city", "shop", ("Which customers live in {city}? Give their names.",
           "Names of all customers from {city}, please."),
           "SELECT name FROM customers WHERE city = {city}", {"city": "SELECT DISTINCT city FROM customers"}),
    Family("orders_of_status", "shop", ("How many orders are {status}?", "Count the orders with status {status}."),
           "SELECT count(*) FROM orders WHERE status = {status}", {"status": "SELECT DISTINCT status FROM orders"}),
    Family("dearest_products", "shop", ("What are the {n} dearest products? Name and price, dearest first.",),
           "SELECT name, price FROM products ORDER BY price DESC, name LIMIT {n}", {"n": (2, 3, 4, 5, 6, 7, 8, 9)}),
    Family("average_price", "shop", ("What does a product of the category {category} cost on average?",),
           "SELECT avg(price) FROM products WHERE category = {category}",
           {"category": "SELECT DISTINCT category FROM products"}),
    Family("buyers_of_product", "shop", ("Who has ordered the {product}? Each name once.",
           "Names of the customers who ordered a {product}, without repeats."),
           "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
           " JOIN products p ON p.id = o.product_id WHERE p.name = {product}",
           {"product": "SELECT DISTINCT p.name FROM products p JOIN orders o ON o.product_id = p.id"}),
    Family("spent_by_customer", "shop", ("How much has {customer} spent on all orders together?",),
           "SELECT sum(o.quantity * p.price) FROM orders o JOIN products p ON p.id = o.product_id"
           " JOIN customers c ON c.id = o.customer_id WHERE c.name = {customer}",
           {"customer": "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"}),
    Family("never_ordered", "shop", ("Which products has nobody ever ordered? Names.",),
           "SELECT name FROM products WHERE id NOT IN (SELECT product_id FROM orders)"),
    Family("busy_customers", "shop", ("Who placed more than {n} orders? Name and number, most orders first, then by name.",),
           "SELECT c.name, count(*) AS orders FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id"
           " HAVING count(*) > {n} ORDER BY orders DESC, c.name", {"n": (2, 3)}, hard=True),
    Family("dearest_of_category", "shop", ("For each category, its dearest price and how many products it has.",),
           "SELECT category, max(price), count(*) FROM products GROUP BY category", hard=True),
    Family("big_spenders", "shop", ("Who has spent more than {n} on all orders together? Name and sum, largest sum first, then by name.",),
           "SELECT c.name, sum(o.quantity * p.price) AS spent FROM customers c JOIN orders o ON o.customer_id = c.id"
           " JOIN products p ON p.id = o.product_id GROUP BY c.id HAVING spent > {n} ORDER BY spent DESC, c.name",
           {"n": (150, 200, 250, 300, 350, 400, 450, 500)}, hard=True),
    Family("orders_by_product", "shop", ("How often was each product of the category {category} ordered, also if never? Name and number, by name.",),
           "SELECT p.name, count(o.id) FROM products p LEFT JOIN orders o ON o.product_id = p.id WHERE p.category = {category}"
           " GROUP BY p.id ORDER BY p.name", {"category": "SELECT DISTINCT category FROM products"}, hard=True),
    Family("buyers_of_category", "shop", ("Which customers from {city} have ordered something of the category {category}? Each name once, by name.",),
           "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id JOIN products p ON p.id = o.product_id"
           " WHERE c.city = {city} AND p.category = {category} ORDER BY c.name",
           {"city": "SELECT DISTINCT city FROM customers", "category": "SELECT DISTINCT category FROM products"}, hard=True),
    Family("best_month", "shop", ("In which month were most pieces of the category {category} ordered? Month as in 03, and pieces; of equals the first.",),
           "SELECT substr(o.day, 6, 2) AS month, sum(o.quantity) AS pieces FROM orders o JOIN products p ON p.id = o.product_id"
           " WHERE p.category = {category} GROUP BY month ORDER BY pieces DESC, month LIMIT 1",
           {"category": "SELECT DISTINCT category FROM products"}, hard=True),
    Family("cancel_orders", "shop", ("Set every pending order of {customer} to 'cancelled'.",),
           "UPDATE orders SET status = 'cancelled' WHERE status = 'pending' AND customer_id ="
           " (SELECT id FROM customers WHERE name = {customer})",
           {"customer": "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
            " WHERE o.status = 'pending'"}),
    Family("raise_prices", "shop", ("Raise the price of every product of the category {category} by {n}.",),
           "UPDATE products SET price = price + {n} WHERE category = {category}",
           {"category": "SELECT DISTINCT category FROM products", "n": (1, 2, 3, 4, 5, 6, 8, 10)}),
    Family("members_of_city", "library", ("Which members live in {city}? Names.",),
           "SELECT name FROM members WHERE city = {city}", {"city": "SELECT DISTINCT city FROM members"}),
    Family("books_of_author", "library", ("Which books did {author} write? Title and year.",),
           "SELECT title, year FROM books WHERE author = {author}", {"author": "SELECT DISTINCT author FROM books"}),
    Family("books_since", "library", ("How many books are from {year} or later?",),
           "SELECT count(*) FROM books WHERE year >= {year}", {"year": "SELECT DISTINCT year FROM books"}),
    Family("open_loans", "library", ("Which titles has {member} not brought back yet? Each once.",),
           "SELECT DISTINCT b.title FROM books b JOIN loans l ON l.book_id = b.id JOIN members m ON m.id = l.member_id"
           " WHERE m.name = {member} AND l.returned IS NULL",
           {"member": "SELECT DISTINCT m.name FROM members m JOIN loans l ON l.member_id = m.id WHERE l.returned IS NULL"}),
    Family("never_lent", "library", ("Which books were never lent? Titles.",),
           "SELECT title FROM books WHERE id NOT IN (SELECT book_id FROM loans)"),
    Family("loans_by_genre", "library", ("How often was each genre lent? Genre and number, for genres lent at all.",),
           "SELECT b.genre, count(*) FROM loans l JOIN books b ON b.id = l.book_id GROUP BY b.genre", hard=True),
    Family("books_by_member", "library", ("How many different books has each member from {city} borrowed, also if none? Name and number, by name.",),
           "SELECT m.name, count(DISTINCT l.book_id) FROM members m LEFT JOIN loans l ON l.member_id = m.id WHERE m.city = {city}"
           " GROUP BY m.id ORDER BY m.name", {"city": "SELECT DISTINCT city FROM members"}, hard=True),
    Family("lent_of_author", "library", ("Which books by {author} are lent out now, and to how many? Title and number, by title.",),
           "SELECT b.title, count(*) FROM books b JOIN loans l ON l.book_id = b.id WHERE b.author = {author} AND l.returned IS NULL"
           " GROUP BY b.id ORDER BY b.title",
           {"author": "SELECT DISTINCT b.author FROM books b JOIN loans l ON l.book_id = b.id WHERE l.returned IS NULL"}, hard=True),
    Family("popular_of_genre", "library", ("Which {genre} books were lent at least {n} times? Title and number, most loans first, then by title.",),
           "SELECT b.title, count(*) AS loans FROM books b JOIN loans l ON l.book_id = b.id WHERE b.genre = {genre} GROUP BY b.id"
           " HAVING loans >= {n} ORDER BY loans DESC, b.title",
           {"genre": "SELECT DISTINCT genre FROM books", "n": (2, 3, 4, 5)}, hard=True),
    Family("readers_of_genre", "library", ("Which members from {city} have borrowed a {genre} book? Each name once, by name.",),
           "SELECT DISTINCT m.name FROM members m JOIN loans l ON l.member_id = m.id JOIN books b ON b.id = l.book_id"
           " WHERE m.city = {city} AND b.genre = {genre} ORDER BY m.name",
           {"city": "SELECT DISTINCT city FROM members", "genre": "SELECT DISTINCT genre FROM books"}, hard=True),
    Family("return_book", "library", ("{member} brings everything back today: set returned to '2026-12-31' on all open loans.",),
           "UPDATE loans SET returned = '2026-12-31' WHERE returned IS NULL AND member_id ="
           " (SELECT id FROM members WHERE name = {member})",
           {"member": "SELECT DISTINCT m.name FROM members m JOIN loans l ON l.member_id = m.id WHERE l.returned IS NULL"}),
    Family("patients_of_city", "clinic", ("Which patients live in {city}? Names.",),
           "SELECT name FROM patients WHERE city = {city}", {"city": "SELECT DISTINCT city FROM patients"}),
    Family("visits_of_patient", "clinic", ("How many minutes did {patient} spend with doctors in all?",),
           "SELECT sum(v.minutes) FROM visits v JOIN patients p ON p.id = v.patient_id WHERE p.name = {patient}",
           {"patient": "SELECT DISTINCT p.name FROM patients p JOIN visits v ON v.patient_id = p.id"}),
    Family("doctors_of_field", "clinic", ("Which doctors treat {field}? Name and fee, cheapest first, then by name.",),
           "SELECT name, fee FROM doctors WHERE field = {field} ORDER BY fee, name",
           {"field": "SELECT DISTINCT field FROM doctors"}),
    Family("unvisited_doctors", "clinic", ("Which doctors has nobody visited? Names.",),
           "SELECT name FROM doctors WHERE id NOT IN (SELECT doctor_id FROM visits)"),
    Family("raise_fees", "clinic", ("Raise the fee of every doctor for {field} by {n}.",),
           "UPDATE doctors SET fee = fee + {n} WHERE field = {field}",
           {"field": "SELECT DISTINCT field FROM doctors", "n": (5, 8, 10, 12, 15, 20, 25, 30)}),
)  # fmt: skip


def literal(value: object) -> str:
    """A value as an SQL literal."""
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def ask(family: Family, seed: int, rng: random.Random) -> tuple[str, str]:
    """A question of the family about the database of ``seed``, in words and as a statement."""
    connection = build(family.domain, seed)
    chosen = {}
    for key, choices in family.choices.items():
        values = [row[0] for row in connection.execute(choices)] if isinstance(choices, str) else list(choices)
        chosen[key] = rng.choice(sorted(values, key=str))
    connection.close()
    statement = family.sql.format(**{key: literal(value) for key, value in chosen.items()})
    return rng.choice(family.words).format(**chosen), statement


def read(domain: str, words: str) -> list[tuple[Family, str]]:
    """The questions in ``words`` about a database of ``domain``, each as its family and statement.

    Empty if a sentence is not in the words of any family, or in the words of two families.
    """
    found, rest = [], words
    for family in FAMILIES:
        for template in family.words if family.domain == domain else ():
            for match in re.finditer(_pattern(template), words):
                chosen = {key: int(value) if value.isdecimal() else value for key, value in match.groupdict().items()}
                found.append((family, family.sql.format(**{key: literal(value) for key, value in chosen.items()})))
                rest = rest.replace(match[0], "", 1)
    return [] if rest.strip() else found


@cache
def _pattern(template: str) -> str:
    pieces = re.split(r"\{(\w+)\}", template)  # text and parameters alternate
    said = "".join(
        rf"(?P<{piece}>[\w'-]+(?: [\w'-]+)?)" if place % 2 else re.escape(piece) for place, piece in enumerate(pieces)
    )
    return rf"(?:^|(?<=[.?!] )){said}(?= |$)"


def questions(domain: str, statement: str) -> list[str]:
    """The questions of ``domain`` that ``statement`` answers, in the words of their families."""
    found = []
    for family in FAMILIES:
        pieces = re.split(r"\{(\w+)\}", family.sql)
        pattern = "".join("('.+'|[0-9]+)" if place % 2 else re.escape(piece) for place, piece in enumerate(pieces))
        if family.domain == domain and (match := re.fullmatch(pattern, statement)):
            values = [value.strip("'").replace("''", "'") for value in match.groups()]
            chosen = dict(zip(pieces[1::2], values, strict=True))
            found += [words.format(**chosen) for words in family.words]
    return found
