"""The memory that a process may still take, within limits of containers, jobs and processes."""

import resource
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from coevolve.core import memory

STAT = "anon 5\ninactive_file 3\nactive_file 2\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 1,000 bytes free, without limits, whose control groups are files in this folder."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "MOUNT", tmp_path)
    return tmp_path


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text)


@pytest.mark.parametrize(
    ("limit", "free"),
    [("max\n", 1000), ("200\n", 95), ("50\n", 0), ("5000\n", 1000)],  # 110 bytes are used, of which 5 are files
)
def test_a_container_of_version_2_has_what_its_group_leaves(limit: str, free: int, machine: Path) -> None:
    write(machine, cgroup="0::/\n", memory_DOT_max=limit, memory_DOT_current="110\n", memory_DOT_stat=STAT)
    assert memory.free_memory() == free


def test_a_job_has_what_the_narrowest_group_around_it_leaves(machine: Path) -> None:
    write(machine, cgroup="0::/slurm/job/step\n")
    write(machine / "slurm/job/step", memory_DOT_max="max", memory_DOT_current="10", memory_DOT_stat=STAT)
    write(machine / "slurm/job", memory_DOT_max="300", memory_DOT_current="100", memory_DOT_stat=STAT)
    assert memory.free_memory() == 205


def test_a_group_of_version_1_is_in_the_folder_of_its_controller(machine: Path) -> None:
    write(machine, cgroup="5:devices:/\n4:memory:/docker/a1\n0::/\n")
    files = {"memory_DOT_limit_in_bytes": "400", "memory_DOT_usage_in_bytes": "100", "memory_DOT_stat": STAT}
    write(machine / "memory", **files)  # a container sees its own group as the root
    assert memory.free_memory() == 305


def test_a_limit_of_the_address_space_counts_from_what_is_mapped(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory.free_memory() == 1000  # without control groups
    mapped = psutil.Process().memory_info().vms
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: SimpleNamespace(vms=mapped)))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (mapped + 700, resource.RLIM_INFINITY))
    assert memory.free_memory() == 700
