"""Work on a Ray cluster of two simulated machines gives the same bytes as this process, even if one machine is lost."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import WorkerDied
from coevolve.core.ray_cluster import RayCluster, cluster
from coevolve.core.section import validated
from coevolve.core.workers import Compute, Workers, engine
from coevolve.environments.fingerprint import fingerprint_of
from coevolve.policies.policy import Replicas
from coevolve.policies.transformers_policy import open_transformers
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests import POLICY, ROOT
from tests.unit.stages.train.small import WORLD

LIMITS = Limits(max_turns=6, episode_tokens=300, reply_tokens=64, max_seconds=120.0, batch=6)


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """Two machines with a CPU each. Ray's own services run on the first."""
    from coevolve.core.ray_cluster import load

    load()
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    try:
        yield found
    finally:
        found.shutdown()


@pytest.fixture
def ray(machines: Any) -> Iterator[RayCluster]:
    while len(machines.list_all_nodes()) < 2:
        machines.add_node(num_cpus=1)
    machines.wait_for_nodes()
    with cluster(at(machines), partial(fingerprint_of, "miniworld")) as found:
        yield found


def at(machines: Any) -> Compute:
    return Compute(engine="ray", address=machines.address, cpus=1)


def lose(machines: Any) -> None:
    """Simulate a power failure of the second machine."""
    (worker,) = [one for one in machines.list_all_nodes() if one is not machines.head_node]
    machines.remove_node(worker, allow_graceful=False)


class Helper:
    """The state of a worker."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def read(self, name: str) -> bytes:
        return (self._place / name).read_bytes()

    def fail(self) -> None:
        raise CoevolveError("params.yaml: no")

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def call(worker: Any, method: str, *arguments: str) -> Any:
    return worker.call(method, *arguments)


def test_folder_is_sent_with_its_content_and_dead_processes_are_replaced(ray: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/weights").write_bytes(b"\x00\xff")
    with Workers(ray, Helper, tmp_path) as workers:
        (tmp_path / "deep/weights").unlink()
        for _ in range(2):
            assert list(workers.map(call, ["read"] * 5, ["deep/weights"] * 5)) == [b"\x00\xff"] * 5
            with pytest.raises(CoevolveError, match=r"params\.yaml: no"):
                workers.submit(call, "fail").result()
            with pytest.raises(WorkerDied, match="'die'"):
                workers.submit(call, "die").result()


def test_cluster_plays_like_this_process_even_if_a_machine_is_lost(ray: RayCluster, machines: Any) -> None:
    arguments = (POLICY, 1, "float32", 1.0, {})
    wanted = [RolloutRequest(task, seed) for seed, task in enumerate(WORLD.tasks("validation")[:40])]
    alone = [one.trajectory for one in rollout(open_transformers(*arguments), WORLD, wanted, LIMITS)]
    counted: list[int] = []
    lost = threading.Event()

    def ended(count: int) -> None:
        counted.append(count)
        if sum(counted) > 10 and not lost.is_set():
            lost.set()
            lose(machines)

    replicas = Replicas(ray, open_transformers, *arguments)
    try:
        assert [one.trajectory for one in rollout(replicas, WORLD, wanted, LIMITS, progress=ended)] == alone
        assert lost.is_set() and sum(counted) == len(wanted)
    finally:
        replicas.shutdown()


def test_machine_with_other_packages_is_reported_with_both_versions(machines: Any) -> None:
    with engine(at(machines), lambda: {"process": str(os.getpid())}) as ray:
        assert ray is not None
        with (
            Workers(ray, Helper, ROOT / "policies") as workers,
            pytest.raises(
                CoevolveError, match=rf"has process \d+, but this machine has {os.getpid()}; install the same there"
            ),
        ):
            workers.submit(call, "read", "x").result()


def test_missing_cluster_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Compute(engine="ray", address="127.0.0.1:1", cpus=1)
    with (
        cluster(wanted, dict) as found,
        pytest.raises(CoevolveError, match=r"compute\.address is 127\.0\.0\.1:1, but no Ray"),
    ):
        _ = found.count
    monkeypatch.setitem(sys.modules, "ray", None)
    with cluster(wanted, dict) as found, pytest.raises(CoevolveError, match=r"pip install 'coevolve\[ray\]'"):
        _ = found.count


@pytest.mark.parametrize("address", ["host", "u:SECRET@host:1"])
def test_an_invalid_address_is_an_error_that_does_not_show_it(address: str) -> None:
    with pytest.raises(CoevolveError, match=r"^compute\.address: expected auto, here or HOST:PORT") as caught:
        validated(Compute, {"engine": "ray", "address": address}, "compute")
    assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)
