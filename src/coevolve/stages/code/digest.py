"""The digest of a stage, a file that DVC can compare: the code that the stage runs and the parameters that it reads.

The code is everything that `stages/NAME/stage.py` imports, directly or indirectly, without comments. A table of modules counts
with the entries that the parameters choose, and a file of the project counts if a parameter names it. The parameters are those
that `stage.py` mentions as `params.SECTION.KEY`, with defaults filled in. A stage's digest changes exactly when the same inputs could give other outputs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from coevolve.core.code_closure import PACKAGE, SOURCE, code_of
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import read_json
from coevolve.core.paths import Paths
from coevolve.core.plugins import Registry, is_place
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
from coevolve.environments.sources import environment_code, registered_code
from coevolve.policies.pretrained import shipped
from coevolve.stages.explore.explorers import EXPLORERS
from coevolve.stages.explore.guidance import ADDED
from coevolve.stages.schema import DERIVED, Params, value
from coevolve.stages.synthesize.synthesizers import SYNTHESIZERS
from coevolve.stages.train.learners import LEARNERS

STAGES = SOURCE / PACKAGE / "stages"
CARRIED = frozenset({"tracking", "compute"})  # sections that cannot change an output
# the file of a registry → the registry, and the parameter that chooses among its modules
REGISTRIES: dict[str, tuple[Registry, str]] = {
    f"{PACKAGE}/stages/train/learners.py": (LEARNERS, "train.learner"),
    f"{PACKAGE}/stages/explore/explorers.py": (EXPLORERS, "explore.explorer"),
    f"{PACKAGE}/stages/explore/guidance.py": (ADDED, "explore.guidance"),
    f"{PACKAGE}/stages/synthesize/synthesizers.py": (SYNTHESIZERS, "synthesize.synthesizer"),
}


def names() -> list[str]:
    """All stages of the loop, in alphabetical order."""
    return sorted(file.parent.name for file in STAGES.glob("*/stage.py") if file.parent.name != "code")


def digest(stage: str, params: Params) -> dict[str, Any]:
    """``code``: file → hash; ``params``: key → value."""
    file = STAGES / stage / "stage.py"
    chosen = {table: value(params, key) for table, (_, key) in REGISTRIES.items()}
    code = code_of(file, {table: [name] for table, name in chosen.items()})
    if stage == "tasks":  # it writes the environment's identity, on which all stages that play there depend
        code |= environment_code(params.environment)
    if stage == "base" and (policy := shipped(params.base.model)):
        code["policy"] = policy_hash(policy)
    if stage == "tasks" and is_place(params.environment):
        code["environment"] = content_hash(identity(make(params.environment)))
    code |= {str(path): policy_hash(path) if path.is_dir() else file_hash(path) for path in _foreign(stage, params)}
    for table, (registry, _) in REGISTRIES.items():
        if table in code:
            code |= registered_code(registry, chosen[table])
    return {"code": code, "params": {key: value(params, key) for key in sorted(reads(file))}}


def _foreign(stage: str, params: Params) -> Iterator[Path]:
    """The files and folders outside of the loop that a stage reads."""
    named: list[str | None] = []
    if stage == "tasks":
        named = [params.tasks.known, *params.tasks.panels.values()]
    elif stage == "train":
        rollouts = params.train.rollouts
        named = [rollouts] if isinstance(rollouts, str) else [*rollouts]
    yield from (path for path in map(Path, filter(None, named)) if path.exists())


def reads(file: Path) -> set[str]:
    """The parameters that a stage reads: `section.key`, or a whole section or key of the top."""
    mentioned = _mentions(ast.parse(file.read_text(encoding="utf-8")), file)
    keys = {key for key in mentioned if key.split(".")[0] not in CARRIED}
    return {key for key in keys if "." not in key or key.split(".")[0] not in keys}


def _mentions(tree: ast.AST, file: Path) -> Iterator[str]:
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        names: list[str] = []
        part: ast.AST = node
        while isinstance(part, ast.Attribute):
            names.insert(0, part.attr.removesuffix("_"))
            part = part.value
        if not names or not isinstance(part, ast.Name) or part.id != "params" or id(node) in inner:
            continue
        field = Params.model_fields.get(names[0]) or Params.model_fields.get(f"{names[0]}_")
        if field is None and names[0] in DERIVED:
            yield names[0]
            continue
        if field is None:
            raise CoevolveError(f"{file}: {ast.unparse(node)} is not a section; pass the sections that are read")
        nested = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        yield ".".join(names[: 2 if nested else 1])


def check(stage: str, params: Params) -> None:
    """Raise a CoevolveError if the digest of ``stage`` in data/code is stale: DVC would record its outputs under other code."""
    path = Paths.code(stage)
    if not path.exists():
        raise CoevolveError(
            f"{path}: no such file; run `dvc repro` with the dvc.yaml of this version, which writes it first"
        )
    noted, now = read_json(path), digest(stage, params)
    for part in ("code", "params"):
        before, after = noted.get(part), now[part]
        if before != after:
            before = before if isinstance(before, dict) else {}
            key = next(key for key in {**before, **after} if before.get(key, ...) != after.get(key, ...))
            raise CoevolveError(
                f"{path} is stale: {key} has changed since; run `dvc repro`, which writes it again, or `dvc repro code`"
            )
