"""The memory that a process may still take."""

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

GROUPS = Path("/proc/self/cgroup")  # a line for each hierarchy: ID:CONTROLLERS:PATH, without controllers in version 2
MOUNT = Path("/sys/fs/cgroup")
# version → the files of a group's limit and of what it uses
FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
CACHES = ("inactive_file", "active_file")  # pages that the kernel takes back, as lines of memory.stat


def free_memory() -> int:
    """Bytes that the machine has free, or fewer where a limit of the container, the job or the process (`ulimit -v`) leaves fewer."""
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    found = [psutil.virtual_memory().available, *_groups()]
    if space != resource.RLIM_INFINITY:
        found.append(space - psutil.Process().memory_info().vms)
    return int(max(min(found), 0))


def _groups() -> Iterator[int]:
    """Bytes that each control group of this process, and each group around it, has left."""
    with suppress(OSError):
        for line in GROUPS.read_text(encoding="ascii").splitlines():
            _, controller, path = line.split(":", 2)
            group = Path(path.lstrip("/"))
            for folder in (group, *group.parents) if controller in FILES else ():
                with suppress(OSError, ValueError):  # a container sees its group as the mount; "max" is no limit
                    yield _left(MOUNT / controller / folder, *FILES[controller])


def _left(folder: Path, limit: str, used: str) -> int:
    most, taken = (int((folder / name).read_text(encoding="ascii")) for name in (limit, used))
    counts = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    return most - taken + sum(int(counts[name]) for name in CACHES)
