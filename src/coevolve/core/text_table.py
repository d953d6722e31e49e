"""Tables in a terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def text_table(title: str, columns: Sequence[str], *sections: Iterable[Sequence[str]]) -> "Table":
    """A table with a line between its ``sections`` of rows. The first column holds names, the others numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for rows in sections:
        for row in rows:
            table.add_row(*row)
        table.add_section()
    return table
