"""Run a stage on several processes by PyTorch's launcher (that of torchrun), from the section `launch` of params.yaml.

Every process runs the same script. The environment variable RANK tells them apart. On the CPU they communicate by gloo, on
GPUs by NCCL. Machine 0 runs the pipeline. Each other machine r runs the same script on the same files (a shared file
system) with COEVOLVE_MACHINE=r. stages/train/trl_arguments.py makes DeepSpeed's configuration of `sharding`.

dvc.yaml does not call `torchrun` or `accelerate launch`. After a one-line error or Ctrl-C they print thirty lines of
traceback and exit with code 1. Accelerate's launcher for CPUs needs mpirun, or silently starts a single process.
"""

import os
import sys
from pathlib import Path
from typing import Literal

from coevolve.core import numeric_options
from coevolve.core.errors import CoevolveError
from coevolve.core.section import Count, Section

MACHINE = "COEVOLVE_MACHINE"
ADDRESS = "COEVOLVE_ADDRESS"  # of machine 0, instead of launch.address: a cluster assigns it when a job starts
FOLDER = "COEVOLVE_SCRATCH_FOLDER"  # set by a launcher for the processes that it starts


class Launch(Section):
    """Section `launch`: training on several processes. On machine r > 0 set COEVOLVE_MACHINE=r."""

    processes: Count = 1
    """Processes per machine, one per GPU."""
    machines: Count = 1
    """Machines that train together."""
    address: str = "127.0.0.1"
    """Address of machine 0."""
    port: Count = 29500
    """Port on machine 0."""
    sharding: Literal["none", "zero2", "zero3"] = "none"
    """DeepSpeed stage: zero2 shards optimizer and gradients, zero3 the weights too."""


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this process is the one that writes files and logs."""
    return int(os.environ.get("RANK", "0")) == 0


def inside() -> bool:
    """Whether a launcher started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def wanted(config: Launch) -> bool:
    return config.processes * config.machines > 1 or config.sharding != "none"


def machine() -> int:
    """The number of this machine in a launch on several machines."""
    return numeric_options.variable(MACHINE, numeric_options.whole, 0)


def folder(default: Path) -> Path:
    """The scratch folder that this process's launcher has claimed; ``default`` on other machines."""
    return Path(os.environ.get(FOLDER, default))


def spawn(config: Launch, *command: str, folder: Path | None = None) -> int:
    """Run ``python command`` in every process and wait. Returns the exit code of the first failed process, or 0.

    The processes get ``folder`` as their scratch folder. A failed process ends all others. Each prints its own errors.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if not 0 <= machine() < config.machines:
        raise CoevolveError(f"{MACHINE} is {machine()}, expected 0 to {config.machines - 1} (launch.machines)")
    several = config.machines > 1
    layout = LaunchConfig(
        min_nodes=config.machines,
        max_nodes=config.machines,
        nproc_per_node=config.processes,
        rdzv_backend="static" if several else "c10d",
        rdzv_endpoint=f"{os.environ.get(ADDRESS, config.address)}:{config.port}" if several else "localhost:0",
        rdzv_configs={"rank": machine()} if several else {},
        run_id="coevolve",
        max_restarts=0,
        monitor_interval=0.2,
    )
    if folder is not None:
        os.environ[FOLDER] = str(folder)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # every process would print the warnings of torch and DeepSpeed
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    try:
        elastic_launch(layout, sys.executable)("-u", *command)
    except ChildFailedError as failed:
        codes = [failure.exitcode for failure in failed.failures.values()]
        return next((code for code in codes if code > 0), 1)
    except SignalException:
        raise KeyboardInterrupt from None
    return 0
