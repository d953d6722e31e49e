"""What a launched process of the tests runs: GRPO on the tiny policy with a few config of its own."""

import json
import sys
from pathlib import Path

from coevolve.core.stage import guard
from coevolve.stages.train import grpo
from tests.stages.train import test_grpo as here


def main() -> None:
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    lora = here.CONFIG.lora.model_copy(update=settings.get("lora", {}))
    config = here.CONFIG.model_copy(update={**settings.get("train", {}), "lora": lora})
    launch = here.PARAMS.launch.model_copy(update=settings.get("launch", {}))
    grpo.learn(here.settings(config, launch), here.WORLD, here.job(folder))


if __name__ == "__main__":
    guard(main)
