"""The summaries of the stages of dvc.yaml, in the order of the graph."""

from collections.abc import Sequence
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_json
from coevolve.core.pipeline import Iteration, steps
from coevolve.core.stage_summary import StageSummary


def outputs(iterations: Sequence[Iteration]) -> list[Path]:
    """The summary files of the current graph. Other files in these folders come from earlier graphs."""
    paths = (Path(out) for step in steps(iterations) for out in step.outs)
    return [path for path in paths if path.parent.name == "summary"]


def summaries(iterations: Sequence[Iteration]) -> list[StageSummary]:
    """The existing summaries: stage by stage, each by iteration."""
    files = outputs(iterations)
    order = {path.stem: number for number, path in enumerate(files)}  # position of a stage's last step in the graph
    found = [_read(path) for path in files if path.exists()]
    return sorted(found, key=lambda summary: (order[summary.stage], summary.iteration))


def _read(path: Path) -> StageSummary:
    summary = parse(StageSummary, read_json(path), str(path))
    if summary.stage != path.stem:
        raise CoevolveError(f"{path}: stage is {summary.stage!r}, expected {path.stem!r}; run the stage again")
    return summary
