"""The senses of a SQL statement, as ``lexicon`` defines them: all its senses, and the senses that an instruction must have."""

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from coevolve.words.lexicon import Senses, number, value

COMPARISONS = {"above": exp.GT, "from": exp.GTE, "below": exp.LT, "up to": exp.LTE}
SUMMARIES = {
    "count": exp.Count,
    "sum": exp.Sum,
    "average": exp.Avg,
    "high": exp.Max,
    "low": exp.Min,
    "once": exp.Distinct,
}
WRITES = {"insert": exp.Insert, "delete": exp.Delete, "set": exp.Update}
PARTS: Mapping[str, tuple[type[exp.Expr], ...]] = {
    **{sense: (kind,) for sense, kind in {**COMPARISONS, **SUMMARIES, **WRITES}.items()},
    "not": (exp.Not, exp.NEQ, exp.Except, exp.Null),
    "sorted": (exp.Order,),
    "limit": (exp.Limit,),
}
TEXTS = ("name", "title")  # columns that name a row: an instruction need not mention them


def parsed(statement: str) -> exp.Expr | None:
    """The parsed statement; None if it is not a statement of SQLite."""
    try:
        return sqlglot.parse_one(statement, dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return None


def writes(tree: exp.Expr) -> bool:
    return isinstance(tree, tuple(WRITES.values()))


def does(tree: exp.Expr, columns: Mapping[str, Sequence[str]]) -> Senses:
    """The senses of all parts of the statement, in a database with these columns by table."""
    return frozenset(_does(tree, columns))


def must(tree: exp.Expr) -> Iterator[Senses]:
    """The statements that an instruction must make, each a set of possible senses.

    They omit the order among equal rows and the only text column of a list, because instructions often leave both open.
    """
    outputs = _outputs(tree)
    for sense, kind in SUMMARIES.items():
        if any(one.find(kind) for one in outputs):
            yield frozenset({sense})
    for sense, kind in WRITES.items():
        if isinstance(tree, kind) and sense != "set":
            yield frozenset({sense})
    if tree.args.get("distinct"):
        yield frozenset({"once"})
    for one in outputs:
        if isinstance(one, exp.Column) and not (len(outputs) == 1 and one.name in TEXTS):
            yield frozenset({f"column {one.name}"})
    if tree.find(*PARTS["not"]):
        yield frozenset({"not"})
    if _keeps_unmatched(tree):
        yield frozenset({"even none"})
    if (first := tree.find(exp.Ordered)) is not None:
        yield frozenset({_direction(first)})
    if compared := [one for kind in COMPARISONS.values() for one in tree.find_all(kind) if one.find(exp.Literal)]:
        yield frozenset(sense for one in compared for sense in _compares(one))
    yield from (frozenset({sense}) for sense in _steps(tree))
    for literal in tree.find_all(exp.Literal):
        if not literal.find_ancestor(exp.Substring) and (literal.is_string or float(literal.name) > 1):
            yield frozenset(_literal(literal))


def _does(tree: exp.Expr, columns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield from (sense for sense, kinds in PARTS.items() if tree.find(*kinds))
    for table in {one.name for one in tree.find_all(exp.Table)}:
        yield f"table {table}"
        yield from (f"table {one}" for name in columns.get(table, ()) for one in _parent(name))
    for column in tree.find_all(exp.Column):
        yield f"column {column.name}"
    for literal in tree.find_all(exp.Literal):
        yield from _literal(literal)
    for ordered in tree.find_all(exp.Ordered):
        yield _direction(ordered)
    for kind in COMPARISONS.values():
        yield from (sense for one in tree.find_all(kind) for sense in _compares(one))
    yield from (f"asked {table}" for table in _asked(tree))
    if _keeps_unmatched(tree):
        yield "even none"
    yield from _steps(tree)


def _outputs(tree: exp.Expr) -> list[exp.Expr]:
    return [one.unalias() for one in tree.expressions] if isinstance(tree, exp.Select) else []


def _parent(column: str) -> Iterator[str]:
    """The table that a column refers to."""
    if column.endswith("_id"):
        yield column.removesuffix("_id") + "s"


def _keeps_unmatched(tree: exp.Expr) -> bool:
    return any(join.side for join in tree.find_all(exp.Join))


def _direction(ordered: exp.Expr) -> str:
    if ordered.args.get("desc"):
        return "high"
    return "sorted" if ordered.this.name in TEXTS else "low"


def _asked(tree: exp.Expr) -> Iterator[str]:
    """The tables of the shown columns, whose rows the statement asks for. All tables if it counts or adds up."""
    tables = {one.alias_or_name: one.name for one in tree.find_all(exp.Table)}
    outputs = _outputs(tree)
    if not outputs or any(not isinstance(one, exp.Column) for one in outputs):
        yield from tables.values()
        yield from (parent for one in tree.find_all(exp.Column) for parent in _parent(one.name))
    first = next(iter(tables.values()), "")
    yield from (tables.get(one.table, first) for one in outputs if isinstance(one, exp.Column))


def _compares(part: exp.Expr) -> Iterator[str]:
    """The senses of a comparison. More than 3 and at least 4 are the same, so a comparison has both."""
    sense = next(one for one, kind in COMPARISONS.items() if isinstance(part, kind))
    yield sense
    if part.find(exp.Literal):
        yield {"above": "from", "from": "above", "below": "up to", "up to": "below"}[sense]


def _literal(literal: exp.Literal) -> Iterator[str]:
    if literal.is_string:
        yield value(literal.name.strip("%"))
        return
    given = float(literal.name)
    yield number(given)
    for kind, step in ((exp.GT, 1), (exp.GTE, -1), (exp.LT, -1), (exp.LTE, 1)):
        if isinstance(literal.parent, kind):
            yield number(given + step)


def _steps(tree: exp.Expr) -> Iterator[str]:
    """The sense of a change: for ``SET price = price + 2`` it is "raise"."""
    for one in tree.expressions if isinstance(tree, exp.Update) else ():
        for kind, sense in ((exp.Add, "raise"), (exp.Sub, "lower"), (exp.Mul, "raise"), (exp.Div, "lower")):
            if isinstance(one.expression, kind):
                yield sense
