"""``coevolve launch``: batch scripts for a cluster, printed and not owned."""

import argparse
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from coevolve.core.errors import CoevolveError
from coevolve.core.scratch import scratch
from coevolve.stages.params import Params

HELP = """
Writes what a cluster needs to run the pipeline of this folder, from params.yaml: a server for the model that explores and writes, if
the section `endpoint` is used, and the pipeline itself, on as many machines and GPUs as the section `launch` names. Nothing is
submitted. The scripts are yours to change; apply a profile first (`coevolve profile apply qwen3-4b`).

  coevolve launch show --slurm                       # print them, and write scratch/launch/*.sbatch
  coevolve launch show --slurm --check               # and try them: bash -n, and `sbatch --test-only` where there is Slurm
  coevolve launch show --slurm --partition a100 --account me --time 12:00:00
  coevolve launch show --kubernetes --image registry/coevolve:tag --claim my-volume

  sbatch -W scratch/launch/run.sbatch                # waits, and ends with the pipeline's exit code
"""

RUN = """\
#!/bin/bash
# The pipeline of $folder on $machines machine(s) of $processes GPU(s). What was done stays: submitted again, it goes on.
#SBATCH --job-name=coevolve
#SBATCH --nodes=$machines
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=$processes
#SBATCH --cpus-per-task=$cpus
#SBATCH --time=$time
#SBATCH --output=$out/run-%j.log
#SBATCH --signal=B:TERM@120
$more
set -euo pipefail
cd $folder
export PATH=$folder/.venv/bin:$$PATH PYTHONPATH=$folder/src OMP_NUM_THREADS=1 MLFLOW_DISABLE_TELEMETRY=true
export COEVOLVE_ADDRESS=$$(scontrol show hostnames "$$SLURM_JOB_NODELIST" | head -n 1)
trap 'kill $$(jobs -p) 2> /dev/null || true' EXIT
trap 'exit 143' TERM
$others$server
srun --nodes=1 --ntasks=1 --nodelist="$$COEVOLVE_ADDRESS" dvc repro &
wait $$!
coevolve summary
"""

# each of the other machines trains with machine 0 once the stage before training has been done by this job
OTHERS = """
if [ "$$SLURM_JOB_NUM_NODES" -gt 1 ]; then
  touch $out/began-"$$SLURM_JOB_ID"
  for machine in $$(seq 1 $$((SLURM_JOB_NUM_NODES - 1))); do
    node=$$(scontrol show hostnames "$$SLURM_JOB_NODELIST" | sed -n "$$((machine + 1))p")
    COEVOLVE_MACHINE=$$machine srun --overlap --nodes=1 --ntasks=1 --nodelist="$$node" bash -c '
      for t in $iterations; do
        until [ data/$$t/summary/pairs.json -nt $out/began-'"$$SLURM_JOB_ID"' ]; do sleep 2; done
        python pipelines/train.py $$t
      done' &
  done
fi
"""

WAIT = """
until curl -fs $url/models > /dev/null; do sleep 10; done   # the server of serve.sbatch, which is to be submitted first
"""

SERVE = """\
#!/bin/bash
# vLLM with $model, where params.yaml looks for it: $url
#SBATCH --job-name=coevolve-serve
#SBATCH --nodes=1
#SBATCH --gpus-per-node=$gpus
#SBATCH --cpus-per-task=$cpus
#SBATCH --time=$time
#SBATCH --output=$out/serve-%j.log
$more
set -euo pipefail
cd $folder
export PATH=$folder/.venv/bin:$$PATH
vllm serve $model --host 0.0.0.0 --port $port --tensor-parallel-size $gpus --enable-auto-tool-choice --tool-call-parser hermes
"""

JOB = """\
# The pipeline as a Job, on one machine of $processes GPU(s): kubectl apply -f job.yaml
# The claim holds the repository, its .dvc/cache and mlruns at /project; what was done stays, and a job that is made again goes on.
apiVersion: batch/v1
kind: Job
metadata:
  name: coevolve
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 120
      containers:
        - name: coevolve
          image: $image
          workingDir: /project
          command: ["dvc", "repro"]
          resources:
            limits: {nvidia.com/gpu: $processes}
            requests: {cpu: $cpus}
          volumeMounts:
            - {name: project, mountPath: /project}
            - {name: memory, mountPath: /dev/shm}
      volumes:
        - {name: project, persistentVolumeClaim: {claimName: $claim}}
        - {name: memory, emptyDir: {medium: Memory}}
"""


@dataclass(frozen=True)
class Cluster:
    """What a cluster is told besides params.yaml; ``more`` are lines of its own for the head of a script."""

    time: str = "24:00:00"
    cpus: int = 16
    gpus: int = 1
    more: str = ""
    image: str = "coevolve"
    claim: str = "coevolve"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = commands.add_parser("show", help="print the scripts, and write them")
    where = show.add_mutually_exclusive_group(required=True)
    where.add_argument("--slurm", action="store_true", help="batch scripts")
    where.add_argument("--kubernetes", action="store_true", help="a Job")
    show.add_argument("--out", type=Path, metavar="FOLDER", help="where to write them (scratch/launch)")
    show.add_argument("--check", action="store_true", help="try them, as far as this machine can")
    show.add_argument("--partition", metavar="NAME")
    show.add_argument("--account", metavar="NAME")
    show.add_argument("--time", default=Cluster.time, metavar="HH:MM:SS", help="limit of a job (%(default)s)")
    show.add_argument("--cpus", type=int, default=Cluster.cpus, metavar="N", help="cores of a machine (%(default)s)")
    show.add_argument(
        "--serve-gpus", type=int, default=Cluster.gpus, metavar="N", help="GPUs of the server (%(default)s)"
    )
    show.add_argument("--image", default=Cluster.image, metavar="NAME", help="what `docker build` made (%(default)s)")
    show.add_argument("--claim", default=Cluster.claim, metavar="NAME", help="a volume claim (%(default)s)")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.io import write_text
    from coevolve.stages.params import load

    given = {"partition": args.partition, "account": args.account}
    more = "".join(f"#SBATCH --{name}={shlex.quote(value)}\n" for name, value in given.items() if value)
    cluster = Cluster(args.time, args.cpus, args.serve_gpus, more, args.image, args.claim)
    out = args.out or scratch() / "launch"
    made = (slurm if args.slurm else kubernetes)(load(), cluster, Path.cwd(), out.absolute())
    out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        print(f"# ---- {out / name}\n{text}")
        write_text(out / name, text)
    if args.check:
        for line in checked([out / name for name in made]):
            print(line)
    return 0


def slurm(params: Params, cluster: Cluster, folder: Path, out: Path) -> dict[str, str]:
    """The scripts by name, for the repository in ``folder``; logs go to ``out``."""
    launch, endpoint = params.launch, params.endpoint
    asked = "endpoint" in (params.explore.explorer, params.synthesize.synthesizer) or params.verify.solver_attempts > 0
    asked = asked and endpoint.replay is None
    known: dict[str, object] = {
        "folder": shlex.quote(str(folder)),
        "out": shlex.quote(str(out)),
        "machines": launch.machines,
        "processes": launch.processes,
        "iterations": " ".join(str(one.t) for one in params.iterations),
        "cpus": cluster.cpus,
        "time": cluster.time,
        "more": cluster.more,
        "gpus": cluster.gpus,
        "url": shlex.quote(endpoint.url),
        "port": urlsplit(endpoint.url).port or 8000,
        "model": shlex.quote(endpoint.model),
    }
    others = _filled(OTHERS, known) if launch.machines > 1 else ""
    run = _filled(RUN, {**known, "others": others, "server": _filled(WAIT, known) if asked else ""})
    if asked and not endpoint.model:
        raise CoevolveError("endpoint.model is empty, and a server needs to know what to serve; name it in params.yaml")
    return {"serve.sbatch": _filled(SERVE, known), "run.sbatch": run} if asked else {"run.sbatch": run}


def kubernetes(params: Params, cluster: Cluster, folder: Path, out: Path) -> dict[str, str]:
    """A Job by name; one machine, since machines of a pipeline share a file system and know each other by name."""
    if params.launch.machines > 1:
        raise CoevolveError(
            f"launch.machines: {params.launch.machines}: a Job is one machine; set it to 1, or use --slurm for several"
        )
    known = {"processes": params.launch.processes, "cpus": cluster.cpus, "image": cluster.image, "claim": cluster.claim}
    return {"job.yaml": _filled(JOB, known)}


def _filled(text: str, known: Mapping[str, object]) -> str:
    return Template(text).substitute(known)


def checked(files: list[Path]) -> list[str]:
    """What this machine says of each script: a line each. A script that is refused is a CoevolveError."""
    said = []
    for file in files:
        tools = [["bash", "-n"]] if file.suffix == ".sbatch" else [["kubectl", "apply", "--dry-run=client", "-f"]]
        tools += [["sbatch", "--test-only"]] if file.suffix == ".sbatch" else []
        for tool in tools:
            if shutil.which(tool[0]) is None:
                said.append(f"{file}: not tried by `{' '.join(tool)}`: there is no {tool[0]} here")
                continue
            done = subprocess.run([*tool, str(file)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise CoevolveError(
                    f"{file}: `{' '.join(tool)}` refuses it: {(done.stderr or done.stdout).strip()[:300]}"
                )
            said.append(f"{file}: taken by `{' '.join(tool)}`")
    return said
