"""A launched process of the tests: a small run of a learner with a few changed settings.

Learners by pairs find them in the folder `pairs` beside the one that they write to.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from coevolve.core.arithmetic import pin
from coevolve.core.guard import guard
from coevolve.core.io import read_jsonl
from coevolve.core.records import Pair
from coevolve.core.trajectories import read_trajectories
from coevolve.stages.train import shared_prefix
from coevolve.stages.train.learners import LEARNERS
from tests.unit.stages.train import small


def main() -> None:
    pin()
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    if settings.get("shares"):  # also short prompts
        shared_prefix.WORTH, shared_prefix.LEAST = 0, 8
    launch = small.PARAMS.launch.model_copy(update=settings.get("launch", {}))
    config = small.changed(**settings.get("train", {}))
    job, made = small.job(folder), folder.parent / "pairs"
    if made.is_dir():
        rehearsals, references = (read_trajectories(made / f"{name}.parquet") for name in ("rehearsals", "references"))
        pairs = read_jsonl(made / "pairs.jsonl", Pair)
        job = replace(job, pairs=pairs, rehearsals=rehearsals, references=references)
    LEARNERS.find(config.learner, "learn")(
        small.settings(config, launch, **settings.get("learner", {})), small.WORLD, job
    )


if __name__ == "__main__":
    guard(main)
