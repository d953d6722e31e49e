"""``coevolve track``: log what the trackers lack."""

import argparse

from coevolve.core.errors import CoevolveError
from coevolve.stages.schema import load
from coevolve.tracking.follow import follow

HELP = """
Logs what the files of this project hold and MLflow lacks (and W&B, if tracking.wandb says so): runs, metrics, parameters,
datasets, traces, and versions of the policy with the alias `champion`. Stages do the same. Use it after a tracker was down, with
a new store, in a clone after `dvc pull`, or after `dvc exp apply` of an experiment in which no stage ran.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    new, failures = follow(load())
    if failures:
        raise CoevolveError("; ".join(failures))
    print(f"{new} new runs" if new else "the trackers have every run of this project")
    return 0
