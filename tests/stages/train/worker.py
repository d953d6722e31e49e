"""What a launched process of the tests runs: the small run of GRPO with a few settings of its own."""

import json
import sys
from pathlib import Path

from coevolve.core.stage import guard
from coevolve.stages.train import grpo
from tests.stages.train import small


def main() -> None:
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    launch = small.PARAMS.launch.model_copy(update=settings.get("launch", {}))
    config = small.changed(**settings.get("train", {}))
    grpo.learn(small.settings(config, launch, **settings.get("grpo", {})), small.WORLD, small.job(folder))


if __name__ == "__main__":
    guard(main)
