"""What a launched process of the tests runs: GRPO on the tiny policy with a few knobs of its own."""

import json
import sys
from pathlib import Path

from coevolve.stage import guard
from coevolve.training import grpo
from tests.training import test_grpo as here


def main() -> None:
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    lora = here.KNOBS.lora.model_copy(update=settings.get("lora", {}))
    knobs = here.KNOBS.model_copy(update={**settings.get("train", {}), "lora": lora})
    launch = here.PARAMS.launch.model_copy(update=settings.get("launch", {}))
    grpo.train(knobs, here.ACTING, launch, here.WORLD, here.job(folder))


if __name__ == "__main__":
    guard(main)
