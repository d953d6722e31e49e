"""The pages of the documentation, and the code in them."""

import re
from collections.abc import Iterator

from tests import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:bash|sh)\n(.*?)^```|^((?: {4}[^\n]*\n?)+)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*(?:coevolve|dvc|make|pip|python|git|docker|mlflow|ray) \S")


def blocks(text: str) -> Iterator[list[str]]:
    """The lines of each block of code."""
    for fenced, indented in BLOCK.findall(text):
        yield [line.strip() for line in (fenced or indented).replace("\\\n", "").splitlines()]


def snippets(text: str) -> Iterator[str]:
    """All code of a page: the lines of blocks, and inline spans."""
    for block in blocks(text):
        yield from block
    yield from INLINE.findall(text)


def typed(text: str) -> list[str]:
    """The commands in the blocks of a page, without comments and with single spaces."""
    lines = (line for block in blocks(text) for line in block if PROGRAM.match(line))
    return [" ".join(re.split(r"\s# ", line)[0].split()) for line in lines]
