"""A stage on several processes: PyTorch's own launcher (torchrun's), from the section `launch` of params.yaml.

Every process runs the same script; what belongs to one is the environment variable RANK. On the CPU they talk by gloo, on
GPUs by NCCL. Machine 0 runs the pipeline; each other machine r runs the same script on the same files (a shared file
system) with COEVOLVE_MACHINE=r.

It is called here and not by `torchrun` or `accelerate launch` in dvc.yaml: those end an error of one line, and Ctrl-C, with thirty
lines of traceback and exit code 1; and accelerate's launcher for CPUs needs mpirun, or starts one process and says nothing.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from coevolve.core.errors import CoevolveError
from coevolve.core.scratch import scratch
from coevolve.core.section import Count, Section

MACHINE = "COEVOLVE_MACHINE"
ADDRESS = "COEVOLVE_ADDRESS"  # of machine 0, in place of launch.address: a cluster says it when a job begins
FOLDER = "COEVOLVE_SCRATCH_FOLDER"  # from a launcher to the processes that it starts
EXTENSIONS = "TORCH_EXTENSIONS_DIR"


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
    """Whether this process writes what is written once."""
    return int(os.environ.get("RANK", "0")) == 0


def inside() -> bool:
    """Whether this process is one of those that were launched."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def wanted(config: Launch) -> bool:
    return config.processes * config.machines > 1 or config.sharding != "none"


def machine() -> int:
    """The number of this machine in a launch on several."""
    return int(os.environ.get(MACHINE, "0"))


def folder(default: Path) -> Path:
    """The scratch folder that whoever launched this process has claimed; ``default`` on other machines."""
    return Path(os.environ.get(FOLDER, default))


def spawn(config: Launch, *command: str, folder: Path | None = None) -> int:
    """Run ``python command`` in every process and wait; the exit code of the first that fails, or 0.

    ``folder`` is handed to them. A process that fails ends all of them. What they print is theirs.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if not 0 <= machine() < config.machines:
        raise CoevolveError(f"{MACHINE} is {machine()}, expected 0 to {config.machines - 1} (launch.machines)")
    layout = LaunchConfig(
        min_nodes=config.machines,
        max_nodes=config.machines,
        nproc_per_node=config.processes,
        rdzv_backend="static" if config.machines > 1 else "c10d",
        rdzv_endpoint=f"{os.environ.get(ADDRESS, config.address)}:{config.port}"
        if config.machines > 1
        else "localhost:0",
        rdzv_configs={"rank": machine()} if config.machines > 1 else {},
        run_id="coevolve",
        max_restarts=0,
        monitor_interval=0.2,
    )
    if folder is not None:
        os.environ[FOLDER] = str(folder)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")  # torch's and DeepSpeed's, from every process
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    try:
        with _compiled():
            elastic_launch(layout, sys.executable)("-u", *command)
    except ChildFailedError as failed:
        codes = [failure.exitcode for failure in failed.failures.values()]
        return next((code for code in codes if code > 0), 1)
    except SignalException:
        raise KeyboardInterrupt from None
    return 0


@contextmanager
def _compiled() -> Iterator[None]:
    """Where processes keep what PyTorch compiles for them (DeepSpeed's operators).

    A build that was killed leaves a lock for which PyTorch waits without end. Every launch holds the folder's flock,
    shared; who gets it alone knows that nobody builds, and takes such locks away. A folder that was set already is
    another's, and left as it is.
    """
    if EXTENSIONS in os.environ:
        yield
        return
    folder = scratch() / "extensions"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".launches").open("w") as launches:
        try:
            fcntl.flock(launches, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            for left in folder.glob("*/lock"):
                left.unlink()
        fcntl.flock(launches, fcntl.LOCK_SH)
        os.environ[EXTENSIONS] = str(folder)
        try:
            yield
        finally:
            del os.environ[EXTENSIONS]
