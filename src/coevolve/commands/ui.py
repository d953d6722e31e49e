"""``coevolve ui``: MLflow on what ran, with the columns set."""

import argparse
import os
import sys

from coevolve.core.errors import CoevolveError

HELP = """
Opens MLflow on the store that runs are logged to (MLFLOW_TRACKING_URI, or the embedded one) and prints the address of
the runs' table, with columns for iterations, success by panel and the DVC experiment. Ctrl-C ends it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("--port", type=int, default=5000, help="of MLflow (5000)")
    parser.add_argument("--experiment", default="coevolve", help="tracking.experiment of params.yaml (coevolve)")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.untrusted import without_secrets
    from coevolve.tracking.mlflow_sink import view

    where = view(args.experiment)
    if where is None:
        raise CoevolveError(f"no runs of experiment {args.experiment!r} yet; run `dvc repro`")
    store, path = where
    if store.startswith("http"):
        print(f"MLflow: {without_secrets(store).rstrip('/')}/{path}")
        return 0
    print(f"MLflow: http://127.0.0.1:{args.port}/{path} (Ctrl-C ends it)", flush=True)
    # the store may hold a password, which a command line would show to all who list processes
    # one process is enough for one person; MLflow's job runners, five more, are for what runs in its server
    jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**jobs, **os.environ, "MLFLOW_BACKEND_STORE_URI": store}
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(args.port), "--workers", "1"]
    os.execve(sys.executable, command, environment)
