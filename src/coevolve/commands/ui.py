"""``coevolve ui``: open MLflow on the table of the project's runs."""

import argparse
import os
import sys

from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import port
from coevolve.core.untrusted import without_secrets
from coevolve.stages.schema import load
from coevolve.tracking.follow import follow
from coevolve.tracking.mlflow_sink import view
from coevolve.tracking.refusals import RESTART, remedy, said

HELP = """
Starts MLflow and prints the address of the table of runs, with columns for iterations, success by panel and the DVC
experiment. MLflow reads the store that runs log to: MLFLOW_TRACKING_URI, which counts from the project's folder if it is
relative, or mlruns/mlflow.db in the project. Ctrl-C stops it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=port, default=5000, help="port of MLflow")
    parser.add_argument("--experiment", default="coevolve", help="the value of tracking.experiment in params.yaml")


def run(args: argparse.Namespace) -> int:
    failures = follow(load())[1]
    try:
        where = view(args.experiment)
    except Exception as error:
        raise CoevolveError(f"MLflow {said(error)}; {remedy(error) or RESTART}") from None
    for failure in failures:
        print(failure)
    if where is None:
        raise CoevolveError(f"no runs of experiment {args.experiment!r} yet; run `dvc repro`")
    store, path = where
    if store.startswith("databricks"):
        raise CoevolveError(
            f"the runs are in Databricks ({store}): open experiment {args.experiment!r} in its own page"
        )
    if store.startswith("http"):
        print(f"MLflow: {without_secrets(store).rstrip('/')}/{path}")
        return 0
    print(f"MLflow: http://127.0.0.1:{args.port}/{path} (Ctrl-C stops it)", flush=True)
    # the store's address may hold a password, and every user of the machine can read a command line
    # one worker is enough for one person, and nothing of ours needs MLflow's five job runners
    jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**jobs, **os.environ, "MLFLOW_BACKEND_STORE_URI": store}
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(args.port), "--workers", "1"]
    os.execve(sys.executable, command, environment)
