"""The meaning of English words for a database: for each sense, the phrases that can have it.

A phrase under several senses has one of them in a sentence. Under "" are phrases that may mean nothing.
"""

from collections.abc import Iterable, Sequence

from coevolve.words.lexicon import SILENT, Lexicon, value

HIGH, LOW = (
    "dearest, priciest, costliest, most expensive, most costly, highest, largest, biggest, greatest, most, maximum, max, latest,"
    " newest, youngest, longest, descending, busiest, top, best",
    "cheapest, least expensive, least costly, lowest, smallest, fewest, least, minimum, min, earliest, oldest, shortest, ascending,"
    " bottom, worst",
)
SENSES = {
    "count": "how many, how many times, how often, count, number, number of times, times, tally, head count, figure",
    "sum": "how many, how much, in all, in total, all in all, altogether, together, total, totals, sum, overall, combined, add up,"
    " spent, spend, spending, paid, pay, amount",
    "average": "on average, average, mean, typical, typically, on the whole, how much, usually, normally",
    "high": f"{HIGH}, more, later, first",
    "low": f"{LOW}, fewer, less, earlier, first",
    "reversed": "last, lastly, at the end, reverse, backwards, reversed",
    "above": "more than, greater than, higher than, over, above, exceeding, exceed, exceeds, exceeded, beyond, after, later than, newer"
    " than, later, more",
    "from": "at least, or more, or later, or newer, or higher, or above, or after, and later, and up, since, onward, onwards, no fewer"
    " than, no less than, not less than, a minimum of, minimum of, starting, starting in, starting with, upwards",
    "below": "fewer than, less than, lower than, under, below, before, earlier than, older than, smaller than, fewer, less, earlier",
    "up to": "at most, or fewer, or less, or earlier, or older, or lower, or before, and earlier, up to, until, no more than, not more"
    " than, a maximum of, maximum of",
    "not": "never, nobody, no one, no-one, noone, not, none, no, without, nothing, neither, not a single, yet, not yet, nobody ever, still,"
    " open, outstanding, unreturned, out, unsold, unvisited, missing, currently, now, away",
    "even none": "also if never, also if none, even if, even those, never, none, no, zero, including, included, also, even, with or without,"
    " whether or not, if any, not, every single, regardless",
    "once": "once, just once, only once, distinct, unique, different, no repeats, no repeat, no duplicates, without repeats, without"
    " duplicates, without repetition, no repetition, no double, no doubles, without doubles, not repeated, only one time, one time, duplicate"
    " free, de-duplicated, deduplicated, no matter how often, each one once, skip duplicates, leave out repeats",
    "sorted": "sorted, sort, ordered, alphabetical, alphabetically, alphabet, by name, by names, by title, by titles, a to z, name order, "
    "title order, order, ranked, in order, in order of, sorted by, ordered by",
    "limit": "top, best, the first, first, only, one, single",
    "raise": "raise, raised, increase, increased, put up, up, bump, bump up, add, add to, lift, hike, go up, more expensive, higher, dearer,"
    " mark up, plus",
    "lower": "lower, lowered, decrease, decreased, reduce, reduced, cut, drop, take off, knock off, go down, cheaper, down, mark down, minus,"
    " discount",
    "set": "set, mark, marked, change, changed, update, updated, make, record, recorded, put, switch, turn, enter, note, register, fill,"
    " write, adjust, flip, move",
    "delete": "delete, deleted, remove, removed, erase, get rid of, drop, wipe, clear out, throw out",
    "insert": "insert, add, create, register, new, sign up",
}  # fmt: skip
PERSON = "person, people, who, whom, someone, somebody, anyone, everybody, everyone"
NOUNS = {  # names for the rows of a table
    "customers": f"customer, client, buyer, shopper, purchaser, {PERSON}",
    "products": "product, item, article, good, goods, merchandise, thing, piece",
    "orders": "order, purchase, sale",
    "members": f"member, reader, borrower, {PERSON}",
    "books": "book, volume, work, novel",
    "loans": "loan, checkout",
    "patients": f"patient, {PERSON}",
    "doctors": f"doctor, physician, specialist, dr, {PERSON}",
    "visits": "visit, appointment, consultation",
}
SPOKEN_OF = {  # other words that refer to a table
    "customers": "nobody, no one, he, she, they",
    "products": "something",
    "orders": "place, placed, ordered, ordering, purchased, bought, buy, buying, sold, sell, spent, spend, spending, paid, buyer",
    "members": "nobody, no one, he, she, they",
    "books": "something, title",
    "loans": "lent, lend, lent out, borrow, borrowed, borrowing, borrower, checked out, check out, taken out, took out, loaned, on loan,"
    " lending, out, bring back, brought back, brings back, give back, given back, gave back, gives back",
    "patients": "nobody, no one, he, she, they",
    "doctors": "nobody, no one",
    "visits": "visited, visiting, seen, saw, see, spend, spent, unvisited, been to, with doctors, with a doctor, with the doctors",
}
ASKING = (  # words before a noun that ask for the rows of its table
    "which, which different, what, how many, how many different, how many distinct, names of, names of the, names of all, names of all the,"
    " number of, count the, count all, count all the, list the, list all, list all the"
)
COLUMNS = {
    "name": "name, called, full name, who, whom",
    "city": "city, town, live, lives, living, lived, based, located, resident, residing, at home, come from, comes from",
    "joined": "joined, join, joining, join date",
    "category": "category, kind, type, section, department",
    "price": "price, priced, cost, costs, costing, expensive, how much, spent, spend, worth, paid",
    "stock": "stock, in stock, left, available, inventory",
    "quantity": "quantity, piece, unit, how many, spent, spend, amount, worth, paid",
    "day": "day, date, month, when",
    "status": "status, state",
    "title": "title, name, called",
    "author": "author, write, wrote, written, by, writer, penned",
    "genre": "genre, kind, type, category",
    "year": "year, published, publication year, publication, came out, appeared, released, publication date",
    "copies": "copy, copies",
    "lent": "lent, loan date, date",
    "returned": "returned, return, bring back, brought back, brings back, give back, given back, gave back, gives back, back, handed in, hand in,"
    " return date, unreturned, outstanding, bring, brings, brought, today, brings everything back, returns",
    "born": "born, birth, age, old, birth year",
    "field": "field, specialty, speciality, treat, treats, treating, specialise, specialize, specialised, specialized, expert, area",
    "fee": "fee, charge, charges, charging, cost, costs, price, rate, priced, expensive",
    "minutes": "minute, how long, time, how much time, length, duration",
}  # fmt: skip
VALUES = {  # other words for a value
    "cancelled": "cancel, cancelled, canceled, call off",
    "pending": "pending",
    "shipped": "shipped, sent, dispatched",
    "returned": "returned, sent back",
}
NOTHING = """
a an the this that these those there here it its i me my we us our you your he his her him she they them their any all every each per some
everything one ones own whole full exact exactly just only please thanks thank kindly hello hi hey dear could can would will shall may might
should must does do did done doing is are was were be been being am has have had having get got gets give gives given show tell list lists
find look want wants need needs like know let see say hand in on at of for to from with by as about into per within and or but then so if
else that which what who whose whom where when how ever already anything quick quickly data database table tables entry entries row rows
result results answer answers question query respective respectively both too well such same following according next alongside accompanied
along plus come comes go goes make sure bit right away through across among amongst between belonging belong belongs falls fall under out
back today yet day time use using ties tie tied break at other others individual particular specific currently now open still down up
"""
PHRASES_OF_NOTHING = "look up, as in, of equals, out of, at the moment, right now, thanks in advance, in advance, at all, all of them, in case"


def _split(text: str) -> list[str]:
    return [phrase.strip() for phrase in text.split(",")]


def lexicon(tables: Sequence[str], columns: Sequence[str], values: Iterable[str]) -> Lexicon:
    """The lexicon of a database with these tables and columns, and with ``values`` in its text columns."""
    words = {phrase: frozenset(senses) for phrase, senses in _words(tables, columns, values).items()}
    found = {phrase: [senses] if senses else [] for phrase, senses in words.items()}
    for asking in _split(ASKING):
        says = [asking] if asking in words else asking.split()
        for noun in dict.fromkeys(noun for table in tables for noun in _nouns(table)):
            parts = [senses - {"sum"} for part in [*says, noun] if (senses := words.get(part))]  # rows are counted
            whose = frozenset(f"asked {table}" for table in tables if noun in _nouns(table))
            found[f"{asking} {noun}"] = [*parts, whose]
    return found


def _nouns(table: str) -> list[str]:
    return _split(NOUNS.get(table, table.removesuffix("s")))


def _words(tables: Iterable[str], columns: Iterable[str], values: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}

    def enter(sense: str, phrases: Iterable[str]) -> None:
        for phrase in phrases:
            found.setdefault(phrase, set()).add(sense)

    for sense, said in SENSES.items():
        enter(sense, _split(said))
    for one in tables:
        enter(f"table {one}", [*_nouns(one), *_split(SPOKEN_OF.get(one, one))])
    for one in columns:
        enter(f"column {one}", _split(COLUMNS.get(one, one)))
    for one in values:
        enter(value(one), {one, *one.split()})
    for one, said in VALUES.items():
        enter(value(one), _split(said))
    for word in [*NOTHING.split(), *_split(PHRASES_OF_NOTHING)]:
        if found.setdefault(word, set()):
            found[word].add(SILENT)
    for extreme in _split(HIGH) + _split(LOW):  # the end of a list that begins at the other end
        enter(SILENT, [f"{to} {extreme}" for to in ("to", "to the", "down to", "down to the", "up to", "up to the")])
    return found
