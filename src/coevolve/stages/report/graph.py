"""The summaries that the stages of dvc.yaml write, in the order of the graph."""

from collections.abc import Sequence
from pathlib import Path

from coevolve.core.io import parse, read_json
from coevolve.core.pipeline import Iteration, steps
from coevolve.core.stage_summary import StageSummary


def outputs(iterations: Sequence[Iteration]) -> list[Path]:
    """Where the graph keeps summaries. What lies there besides is of a graph that is no more."""
    paths = (Path(out) for step in steps(iterations) for out in step.outs)
    return [path for path in paths if path.parent.name == "summary"]


def summaries(iterations: Sequence[Iteration]) -> list[StageSummary]:
    """Those that are there: stage by stage, each by iteration."""
    files = outputs(iterations)
    place = {path.stem: number for number, path in enumerate(files)}  # of a stage, where the graph has it last
    found = [parse(StageSummary, read_json(path), str(path)) for path in files if path.exists()]
    return sorted(found, key=lambda one: (place[one.stage], one.iteration))
