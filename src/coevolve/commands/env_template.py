"""Write a new environment's files: a module that works, and the declaration by which coevolve finds it."""

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.environments.registry import is_own
from coevolve.environments.sources import GROUP

DECLARATION = """\
# coevolve reads the entry point below from this file when it runs in this folder. Elsewhere, `pip install` the folder.
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1"

[project.entry-points."{group}"]
{name} = "{module}:{maker}"

[tool.setuptools]
py-modules = ["{module}"]
"""

BESIDE = """
[tool.coevolve]  # a change of these files is a change of the environment
files = {files}
"""

MODULE = '''\
"""The environment `{name}`: a warehouse, as an example. Replace the simulator and the questions with yours.

  coevolve env check {name}    # the contract, and whether it is fit for training
  coevolve env show {name}     # its tools and splits
  coevolve play {name}         # solve a task by hand
  coevolve env phrases {name}  # the words that coevolve learns from your tasks
"""

from collections.abc import Iterator
from itertools import combinations, product

from coevolve.core.task import ToolCall
from coevolve.environments.environment import Phrasebook
from coevolve.environments.methods import MethodEnvironment, Question

ITEMS = ("lamp", "desk", "chair", "shelf", "clock", "vase", "rug", "mirror")
SPLITS = ("seed", "validation", "test")  # seed is for training, the others and `hard` are the frozen panels


class Warehouse:
    """The simulator. Public methods are the tools, attributes are the state, docstrings describe the tools to the agent."""

    def __init__(self, stock: dict[str, int]) -> None:
        self.stock = dict(stock)

    def count(self, item: str) -> int:
        """Say how many pieces of an item are there."""
        if item not in self.stock:
            raise ValueError(f"there is no item {{item}}")  # the agent reads this message
        return self.stock[item]

    def move(self, item: str, pieces: int) -> int:
        """Take pieces of an item out of the warehouse; says how many remain."""
        if not 0 < pieces <= self.count(item):
            raise ValueError(f"there are {{self.count(item)}} pieces of {{item}}")
        self.stock[item] -= pieces
        return self.stock[item]


class {maker}(MethodEnvironment):
    name, simulator = "{name}", Warehouse
    panels = ("validation", "test", "hard")
    phrasebook = Phrasebook(  # the words of new tasks; without it, coevolve learns them from your tasks
        actions={{
            "move": ["take {{pieces}} pieces of {{item}} out", "we need {{pieces}} pieces of {{item}}"],
            "count": ["how many pieces of {{item}} are there"],
        }}
    )

    def questions(self, split: str) -> Iterator[Question]:
        """Yield (instruction, the simulator's arguments, the calls that solve it) for each task of the split."""
        stock = {{item: 8 + place for place, item in enumerate(ITEMS)}}
        if split == "hard":  # kinds of tasks that training lacks: two items at once
            for one, other in combinations(ITEMS, 2):
                calls = [ToolCall("move", {{"item": item, "pieces": 3}}) for item in (one, other)]
                yield f"take 3 pieces of {{one}} and 3 pieces of {{other}} out", {{"stock": stock}}, calls
            return
        number = SPLITS.index(split)
        for item, pieces in list(product(ITEMS, range(2, 8)))[number::3]:  # no task is in two splits
            yield f"take {{pieces}} pieces of {{item}} out", {{"stock": stock}}, [ToolCall("move", {{"item": item, "pieces": pieces}})]
        for item in ITEMS[number::3]:
            yield f"how many pieces of {{item}} are there", {{"stock": stock}}, [ToolCall("count", {{"item": item}})]
'''


def declare(name: str, module: str, maker: str, folder: Path, files: Sequence[str] = ()) -> None:
    """Write the pyproject.toml that names the environment ``module:maker``, which uses ``files`` beside it."""
    text = DECLARATION.format(name=name, module=module, maker=maker, group=GROUP)
    text += BESIDE.format(files=json.dumps(files, ensure_ascii=False)) if files else ""
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def check_new(folder: Path) -> None:
    """Raise a CoevolveError unless ``folder`` is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CoevolveError(f"{folder} is not empty; name a new folder")


def write(name: str, folder: Path) -> list[Path]:
    """Write the environment ``name`` into ``folder``, which must be new or empty. Returns the files."""
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or iskeyword(name):
        raise CoevolveError(
            f"{name!r} is not a valid name of an environment; use small letters, digits and underscores"
        )
    if not is_own(name) or ((spec := find_spec(name)) is not None and spec.origin):
        raise CoevolveError(f"{name!r} is the name of a module or of an environment of coevolve; use another name")
    check_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    maker = "".join(part.capitalize() for part in name.split("_"))
    (folder / f"{name}.py").write_text(MODULE.format(name=name, maker=maker), encoding="utf-8")
    declare(name, name, maker, folder)
    return sorted(folder.iterdir())
