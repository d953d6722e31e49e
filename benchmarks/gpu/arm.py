"""What second.sh needs beside the stages.

    python arm.py set KEY=VALUE...             # set params.yaml to the profile, this folder's params.yaml and these keys
    python arm.py policy PARENT LEARNED OUT    # make a model directory of a checkpoint or an adapter
    python arm.py results                      # success of each evaluated policy, the gain, and the steps of training

The paths are relative to the folder of the run, where you start it.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from coevolve.commands.profile import PARAMS, WHOLE, apply, change
from coevolve.core.arithmetic import pin
from coevolve.core.io import read_jsonl, read_jsonl_objects
from coevolve.core.outcomes import OUTCOMES, Outcome, kinds_of, metrics, paired_interval, solved
from coevolve.core.paths import Paths
from coevolve.core.section import dotted, read_yaml
from coevolve.core.statistics import unit
from coevolve.policies import helper_model
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.schema import load

SHOWN = ("success", "groups_trained", "turns", "tokens", "loss", "grad_norm", "kl", "entropy")


def settings(*changes: str) -> None:
    """Set params.yaml, and print the model to start from."""
    ours = Path(__file__).with_name("params.yaml")
    given = {key: read_yaml(text) for key, _, text in (one.partition("=") for one in changes)}
    apply("smollm2-135m", PARAMS)
    change(PARAMS, {**dotted(read_yaml(ours.read_text()), whole=WHOLE), **given}, f"{ours.name} and {' '.join(given)}")
    print(load(PARAMS).base.model)


def policy(parent: str, learned: str, out: str) -> None:
    """``parent`` with the adapter in ``learned``, whose two files go to OUT/adapter too. Whole weights are copied."""
    source, target = Path(learned), Path(out)
    if not (source / helper_model.ADAPTER).exists():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("optimizer.pt"))
        return
    with TemporaryDirectory() as folder:
        before, after = Path(folder) / "before", Path(folder) / "after"
        helper_model.start(before, on=Path(parent))
        helper_model.write(after, before, source)
        helper_model.opened(after, target, "float32")
    (target / "adapter").mkdir()
    for file in (helper_model.ADAPTER, "adapter_model.safetensors"):
        shutil.copyfile(source / file, target / "adapter" / file)


def results() -> None:
    config, seed = Evaluate(), load(PARAMS).seed
    played = {t: read_jsonl(Paths.evaluation(t) / OUTCOMES, Outcome) for t in (0, 1) if Paths.evaluation(t).exists()}
    for t, outcomes in played.items():
        for panel, result in metrics(outcomes, config, seed).items():
            interval = f"{result.low:.3f} to {result.high:.3f}"
            print(f"policies/{t}, {panel}: solves {result.success:.3f} of {result.tasks} tasks ({interval})")
    for panel in dict.fromkeys(outcome.panel for outcome in played[0]) if len(played) == 2 else ():
        kinds = kinds_of(one for one in played[0] if one.panel == panel)
        gain, low, high = paired_interval(solved(played[0], panel), solved(played[1], panel), config, seed, kinds)
        over = unit(len(set(kinds.values())))
        print(f"gain, {panel}: {gain:+.3f}, 95 % interval over {over} {low:+.3f} to {high:+.3f}")
    finished = Paths.data(0) / "train_metrics.jsonl"
    if finished.exists():
        steps = [row for _, row in read_jsonl_objects(finished)]
    else:  # of an interrupted training
        files = Path("scratch/train").glob("*/steps/*.json")
        steps = [json.loads(file.read_text()) for file in sorted(files, key=lambda file: int(file.stem))]
    for step in steps:
        print(f"step {step['step']:.0f}:", ", ".join(f"{name} {step[name]:.4g}" for name in SHOWN if name in step))


if __name__ == "__main__":
    pin()
    action, *arguments = sys.argv[1:]
    {"set": settings, "policy": policy, "results": results}[action](*arguments)
