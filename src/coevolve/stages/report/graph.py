"""The summaries that the stages of dvc.yaml write, in the order of the graph."""

from collections.abc import Sequence
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_json
from coevolve.core.params import Iteration
from coevolve.core.stage_summary import StageSummary
from coevolve.core.yaml_files import load_yaml

PIPELINE = Path("dvc.yaml")


def outputs(iterations: Sequence[Iteration]) -> list[Path]:
    """Where the graph keeps summaries. What lies there besides is of a graph that is no more."""
    found = []
    stages = load_yaml(PIPELINE, "run from the repository's root").get("stages")
    if not isinstance(stages, dict):
        raise CoevolveError(f"{PIPELINE}: expected a section `stages`; bring it back with git")
    for stage in stages.values():
        for out in stage.get("do", stage).get("outs", ()):
            path = str(out if isinstance(out, str) else next(iter(out)))
            if Path(path).parent.name == "summary":
                for one in iterations if "foreach" in stage else iterations[:1]:
                    found.append(Path(path.replace("${item.t}", str(one.t)).replace("${item.next}", str(one.next))))
    return found


def summaries(iterations: Sequence[Iteration]) -> list[StageSummary]:
    """Those that are there: stage by stage, each by iteration."""
    files = outputs(iterations)
    place = {path.stem: number for number, path in enumerate(files)}  # of a stage, where the graph has it last
    found = [parse(StageSummary, read_json(path), str(path)) for path in files if path.exists()]
    return sorted(found, key=lambda one: (place[one.stage], one.iteration))
