"""Batch scripts: what they hold, that bash takes them, and what they do where Slurm is one machine."""

import argparse
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from coevolve.commands.launch import Cluster, checked, configure, kubernetes, run, slurm
from coevolve.commands.profile import apply
from coevolve.core.errors import CoevolveError
from coevolve.stages.params import Params, load
from tests import ROOT
from tests.waiting import PATIENCE


def params(folder: Path, profile: str = "", **launch: int) -> Params:
    file = folder / "params.yaml"
    file.write_bytes((ROOT / "params.yaml").read_bytes())
    if profile:
        apply(profile, file)
    found = load(file)
    return found.model_copy(update={"launch": found.launch.model_copy(update=launch)})


def test_a_laptop_needs_no_server_and_a_profile_that_asks_one_gets_it(tmp_path: Path) -> None:
    assert set(slurm(params(tmp_path), Cluster(), tmp_path, tmp_path)) == {"run.sbatch"}
    made = slurm(params(tmp_path, "qwen3-4b"), Cluster(more="#SBATCH --partition=a100\n"), tmp_path, tmp_path)
    assert set(made) == {"serve.sbatch", "run.sbatch"}
    assert "vllm serve Qwen/Qwen3-32B" in made["serve.sbatch"] and "--port 8000" in made["serve.sbatch"]
    assert "#SBATCH --gpus-per-node=8" in made["run.sbatch"] and "until curl" in made["run.sbatch"]
    assert all("#SBATCH --partition=a100\n" in text for text in made.values())
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    assert [line for line in checked([tmp_path / name for name in made]) if "taken by `bash -n`" in line]


def test_a_folder_with_a_space_stays_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    (text,) = slurm(params(tmp_path), Cluster(), folder, folder / "out").values()
    assert f"cd '{folder}'" in text


SHIMS = {
    "scontrol": 'printf "here\\nthere\\n"',
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "coevolve": 'echo "coevolve $*" >> log',
    "python": 'echo "machine $COEVOLVE_MACHINE at $COEVOLVE_ADDRESS: $*" >> log',
    "dvc": """for t in 0 1 2; do
  sleep 1; mkdir -p data/$t/summary; touch data/$t/summary/pairs.json
  until grep -q "train.py $t" log 2> /dev/null; do sleep 0.1; done
done; echo "dvc $*" >> log; exit "${CODE:-0}" """,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with a Slurm that is one machine, and a pipeline whose stages wait for the other machine."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, text in SHIMS.items():
        file = tmp_path / ".venv/bin" / name
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)
    old = tmp_path / "data/0/summary/pairs.json"  # of an earlier run: nobody may take it for this one's
    old.parent.mkdir(parents=True)
    old.touch()
    os.utime(old, (1, 1))
    made = slurm(params(tmp_path, machines=2), Cluster(), tmp_path, tmp_path)
    (tmp_path / "run.sbatch").write_text(made["run.sbatch"])
    return tmp_path


@pytest.mark.parametrize("code", [0, 3])
def test_the_other_machine_trains_when_the_pipeline_does_and_the_job_ends_as_the_pipeline(
    cluster: Path, code: int
) -> None:
    slurm_says = {"SLURM_JOB_NODELIST": "x", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "7", "CODE": str(code)}
    done = subprocess.run(
        ["bash", "run.sbatch"],
        cwd=cluster,
        env={**os.environ, **slurm_says},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == code, done.stderr
    trained = [f"machine 1 at here: pipelines/train.py {t}" for t in range(3)]
    assert (cluster / "log").read_text().splitlines() == [
        *trained,
        "dvc repro",
        *([] if code else ["coevolve summary"]),
    ]


def test_a_job_of_kubernetes_is_yaml_and_one_machine(tmp_path: Path) -> None:
    (text,) = kubernetes(params(tmp_path, "qwen3-4b"), Cluster(image="registry/it:1"), tmp_path, tmp_path).values()
    (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry/it:1" and container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    with pytest.raises(CoevolveError, match=r"launch.machines: 2: a Job is one machine"):
        kubernetes(params(tmp_path, machines=2), Cluster(), tmp_path, tmp_path)


def test_a_server_needs_a_model(tmp_path: Path) -> None:
    given = params(tmp_path, "qwen3-4b")
    nameless = given.model_copy(update={"endpoint": given.endpoint.model_copy(update={"model": ""})})
    with pytest.raises(CoevolveError, match=r"endpoint.model is empty"):
        slurm(nameless, Cluster(), tmp_path, tmp_path)


def test_the_command_prints_writes_and_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    params(tmp_path)
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    configure(parser)
    assert run(parser.parse_args(["show", "--slurm", "--check", "--out", "made", "--account", "me too"])) == 0
    said = capsys.readouterr().out
    assert "#SBATCH --account='me too'" in said and "made/run.sbatch: taken by `bash -n`" in said
    assert (tmp_path / "made/run.sbatch").read_text() in said
    (tmp_path / "broken.sbatch").write_text("if true; then\n")
    with pytest.raises(CoevolveError, match=r"refuses it: .*syntax error"):
        checked([tmp_path / "broken.sbatch"])
