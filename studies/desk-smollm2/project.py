"""Make a project for a run of this study: `python studies/desk-smollm2/project.py FOLDER --model MODEL --seed 0 --arm loop`."""

import argparse
from pathlib import Path
from typing import Any

import yaml

from coevolve.cli import main as coevolve

HERE = Path(__file__).parent
ARMS: dict[str, dict[str, Any]] = {"loop": {}, "static": {"explore.explorations": 0, "synthesize.count": 0}}

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--model", required=True)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--arm", choices=ARMS, default="loop")
args = parser.parse_args()
environment = f"{HERE / 'desk.py'}:SupportDesk"
made = ["init", str(args.folder), "--environment", environment, "--model", args.model, "--profile", "smollm2-135m"]
if coevolve(made):
    raise SystemExit(1)
path = args.folder / "params.yaml"
params = yaml.safe_load(path.read_text())
changes = {**yaml.safe_load((HERE / "settings.yaml").read_text()), **ARMS[args.arm], "seed": args.seed}
for key, value in changes.items():
    *sections, last = key.split(".")
    place = params
    for section in sections:
        place = place.setdefault(section, {})
    place[last] = value
path.write_text(yaml.safe_dump(params, sort_keys=False))
