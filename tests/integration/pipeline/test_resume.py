"""A run goes on after a stop, a kill, a changed parameter or an appended iteration. The tests share one clone and run in order."""

import os
import shutil
import signal
from pathlib import Path

from coevolve.stages.train.saving import COMPLETE
from tests.project import Project, clone
from tests.smoke.test_repro import LOOP, OUTPUTS, hashes, ran
from tests.waiting import until


def test_critical_watchdog_stops_before_the_next_dataset(project: Project) -> None:
    params = project.folder / "params.yaml"
    before = params.read_text()
    try:
        project.set(validate__drift={"limit": 0.0, "critical": 0.000001})
        done = project.dvc("repro", check=False)
        assert done.returncode != 0
        assert "error: iteration 0: drift" in done.stdout + done.stderr
        assert "validate.drift.critical in params.yaml" in done.stdout + done.stderr
        assert ran(done.stdout) == ["code", "validate@0"]
    finally:
        params.write_text(before)
    assert not set(ran(project.dvc("repro").stdout)) & {"train@0", "validate@0"}


def test_signals_parameter_reruns_only_the_later_stages(project: Project) -> None:
    params = project.folder / "params.yaml"
    before = params.read_text()
    project.set(signals__window=3)
    first = ran(project.dvc("repro").stdout)
    assert first[:2] == ["code", "signals@0"]
    assert not {"base", "tasks", "evaluate_base", "train@0", "evaluate@0"} & set(first)
    params.write_text(before)
    assert ran(project.dvc("repro").stdout) == []


def test_rerun_gives_the_same_bytes_even_after_a_kill(project: Project, tmp_path: Path) -> None:
    again = clone(tmp_path)  # with a cache of its own: nothing is taken from the first run
    process = again.start("repro", "train@0")
    checkpoints = again.folder / "scratch/train"
    until(lambda: process.poll() is not None or list(checkpoints.glob(f"*/checkpoint-1/{COMPLETE}")), "no checkpoint")
    assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for lock in (again.folder / ".dvc/tmp").glob("*lock*"):
        shutil.rmtree(lock) if lock.is_dir() else lock.unlink()
    again.dvc("repro", "validate@0", "evaluate@0")  # all but what no output of the loop comes from
    assert hashes(again.folder, OUTPUTS) == hashes(project.folder, OUTPUTS)


def test_appended_iteration_runs_alone(project: Project) -> None:
    project.set(iterations=[{"t": 0, "next": 1}, {"t": 1, "next": 2}])
    assert sorted(ran(project.dvc("repro").stdout)) == sorted(["code", *(f"{stage}@1" for stage in LOOP), "report"])
