"""Read dvc.yaml: the stages of the loop, unrolled over the iterations."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from coevolve.core.arithmetic import in_effect
from coevolve.core.code_closure import PACKAGE, SOURCE
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.section import Count, Section, Whole, load_yaml

PIPELINE = Path("dvc.yaml")
LOCK = Path("dvc.lock")
DIGESTS = Path("data/code")
# the stage and the iteration that a command runs: `pipelines/train.py 0`, or `coevolve stage train 0`
COMMAND = re.compile(r"(?:pipelines/|\bstage )(\w+)(?:\.py)?(?: (\d+))?$")
ITEM = re.compile(r"\$\{item\.(t|next)\}")
LAST = re.compile(r"\$\{iterations\[-1\]\.(t|next)\}")

HEAD = """\
# The loop. You need not edit this file: params.yaml holds your decisions, and `dvc repro` runs the stages that changed.
# Stage `code` records the code and the parameters of every other stage. An upgrade of coevolve reruns the stages whose code it
# changes.
"""


class Iteration(Section):
    """An entry of `iterations`, over which dvc.yaml unrolls the loop."""

    t: Whole
    """The iteration."""
    next: Count
    """The iteration after it."""


class Loop(Protocol):
    @property
    def iterations(self) -> Sequence[Iteration]: ...


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A stage of dvc.yaml, in an iteration if it belongs to one, with the paths that it reads and writes."""

    stage: str
    t: int | None
    deps: tuple[str, ...]
    outs: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.stage if self.t is None else f"{self.stage}/{self.t}"


def steps(iterations: Sequence[Iteration], pipeline: Path = PIPELINE) -> Iterator[PipelineStep]:
    """All steps of the loop, in the order of dvc.yaml."""
    stages = _stages(pipeline, Path.cwd(), pipeline.stat().st_mtime_ns if pipeline.exists() else 0)
    if not isinstance(stages, dict):
        raise CoevolveError(f"{pipeline}: expected a section `stages`; restore it with git")
    for name, stage in stages.items():
        try:
            for iteration in iterations if "foreach" in stage else iterations[:1]:
                yield _step(stage.get("do", stage), iteration, iterations[-1])
        except (AttributeError, KeyError, StopIteration, TypeError):
            raise CoevolveError(f"{pipeline}: stage {name}: expected cmd, deps and outs; restore it with git") from None


@cache
def _stages(pipeline: Path, folder: Path, changed: int) -> Any:
    """The section `stages` of ``pipeline``, seen from ``folder``, last changed at ``changed``. Cached, because a stage reads it often."""
    return load_yaml(pipeline, "run in a project's folder; `coevolve init DIR` makes a project").get("stages")


def check_version(iterations: Sequence[Iteration]) -> None:
    """Raise a CoevolveError if this folder's dvc.yaml lacks a stage, dependency or output that this version of coevolve has.

    A project keeps the file that `coevolve init` wrote, and users may add stages, dependencies and outputs of their own.
    """
    given = {(step.stage, step.t): step for step in steps(iterations)}
    for step in steps(iterations, resource(str(PIPELINE))):
        if step.stage in ("", "code"):  # a project and the repository have different entries for these
            continue
        name = step.stage if step.t is None else f"{step.stage} {step.t}"
        found = given.get((step.stage, step.t))
        absent = (
            [name] if found is None else [path for path in step.deps + step.outs if path not in found.deps + found.outs]
        )
        if absent:
            raise CoevolveError(
                f"{PIPELINE}: stage {name}: {absent[0]} is missing: the file is of another version of coevolve; take the one that "
                "`coevolve init NEW` writes"
            )


def _step(stage: dict[str, Any], iteration: Iteration, last: Iteration) -> PipelineStep:
    def filled(text: object) -> str:
        path = str(text if isinstance(text, str) else next(iter(text)))  # type: ignore[call-overload]
        path = ITEM.sub(lambda match: str(getattr(iteration, match[1])), path)
        return LAST.sub(lambda match: str(getattr(last, match[1])), path)

    command = COMMAND.search(filled(stage["cmd"]))
    name, t = (command[1], command[2]) if command else ("", None)
    return PipelineStep(
        name,
        None if t is None else int(t),
        tuple(filled(dep) for dep in stage.get("deps", ())),
        tuple(filled(out) for out in stage.get("outs", ())),
    )


def settled(lock: Path = LOCK) -> set[str] | None:
    """The outputs whose stage ran with the code, parameters and inputs of now, by DVC's notes in ``lock``; None without notes.

    Until `dvc repro` ends, it will replace some of the others.
    """
    if not lock.exists():
        return None
    ran = load_yaml(lock, "").get("stages", {}).values()
    made = {out["path"]: out.get("md5") for stage in ran for out in stage.get("outs", ())}

    def stands(dep: dict[str, Any]) -> bool:
        path, noted = Path(dep["path"]), dep.get("md5")
        if path.parent == DIGESTS:
            return path.exists() and file_hash(path) == noted
        return made.get(str(path), noted) == noted

    return {out["path"] for stage in ran if all(map(stands, stage.get("deps", ()))) for out in stage.get("outs", ())}


def scratch_key(stage: str, t: int | None, params: Loop) -> str:
    """Hash of everything that the result of ``stage`` in iteration ``t`` depends on: the contents of its ``deps`` in dvc.yaml,
    which include the digest of its code and parameters, and this machine's arithmetic.

    It names the folder of checkpoints, so a stage never continues unfinished work of other code, parameters or data.
    """
    for step in steps(params.iterations):
        if (step.stage, step.t) == (stage, t):
            hashes = {}
            for dep in step.deps:
                if not (path := Path(dep)).exists():
                    raise CoevolveError(f"{path}: no such file or folder; run `dvc repro`, which writes it")
                hashes[dep] = policy_hash(path) if path.is_dir() else file_hash(path)
            return content_hash([in_effect().name, stage, t, hashes])
    raise CoevolveError(
        f"{PIPELINE}: no stage runs {stage}{'' if t is None else f' {t}'}; append the iteration to params.yaml, or use the "
        f"{PIPELINE} of this version of coevolve"
    )


def resource(name: str) -> Path:
    """The path of ``name``, for example `params.yaml`: the wheel holds it in the package, the repository at its root."""
    packaged = SOURCE / PACKAGE / "project" / name
    return packaged if packaged.exists() else SOURCE.parent / name


def of_project(text: str) -> str:
    """The dvc.yaml of a project, made from the repository's: the stages run the installed package.

    Stage `code` depends on no file there, so it runs each time and takes seconds. Other stages rerun only if their digest
    changes.
    """
    _, stages = text.split("\nstages:\n")
    stages = stages.replace("PYTHONPATH=src python -m coevolve.cli stage code", "coevolve stage code")
    stages = re.sub(r"PYTHONPATH=src python pipelines/(\w+)\.py", r"coevolve stage \1", stages)
    stages = re.sub(
        r"    deps:\n      - src\n      - pipelines\n      - studies[^\n]*\n    params:\n      - params.yaml:\n",
        "    always_changed: true\n",
        stages,
    )
    return f"{HEAD}stages:\n{stages}"
