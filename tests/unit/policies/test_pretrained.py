"""policies/0 as a pointer to a model: pinned, and refused if the model has changed since."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from coevolve.core.errors import CoevolveError
from coevolve.policies.pretrained import POINTER, point, resolve
from coevolve.policies.transformers_policy import load
from tests import POLICY

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache that holds acme/tiny, with main at ``COMMIT``."""
    import huggingface_hub.constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    repository = cache / "models--acme--tiny"
    shutil.copytree(POLICY, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)
    return cache


def test_branch_is_pinned_to_its_commit(hub: Path, tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    (folder / "model.safetensors").write_text("what was here before")
    point("acme/tiny", "main", folder)
    assert [file.name for file in folder.iterdir()] == [POINTER]
    assert json.loads((folder / POINTER).read_text()) == {"model": "acme/tiny", "revision": COMMIT}
    (hub / "models--acme--tiny/refs/main").write_text("f" * 40)  # main has moved on
    assert resolve(folder).name == COMMIT
    here, there = load(folder)[0], load(POLICY)[0]
    assert all(torch.equal(a, b) for a, b in zip(here.parameters(), there.parameters(), strict=True))


@pytest.mark.parametrize(("model", "revision"), [("acme/other", None), ("acme/tiny", "v2")])
def test_unavailable_model_is_a_one_line_error(hub: Path, tmp_path: Path, model: str, revision: str | None) -> None:
    with pytest.raises(CoevolveError, match=rf"base.model: {model}.* HF_HUB_OFFLINE=0") as caught:
        point(model, revision, tmp_path / "0")
    assert "\n" not in str(caught.value)


def test_directory_is_pinned_to_its_files(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(POLICY, model)
    point(str(model), None, tmp_path / "0")
    assert resolve(tmp_path / "0") == model
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    with pytest.raises(CoevolveError, match="have changed; run `dvc repro -f base` to pin them"):
        resolve(tmp_path / "0")
    shutil.rmtree(model)
    with pytest.raises(CoevolveError, match="is missing"):
        resolve(tmp_path / "0")
    point(str(POLICY), None, tmp_path / "generator", "generate")
    assert resolve(tmp_path / "generator") == POLICY
    (tmp_path / "generator" / POINTER).write_text(
        (tmp_path / "generator" / POINTER).read_text().replace(str(POLICY), str(model))
    )
    with pytest.raises(CoevolveError, match="is missing; restore it, or run `dvc repro -f generator`"):
        resolve(tmp_path / "generator")
    with pytest.raises(CoevolveError, match=r"base.revision is for models from the hub"):
        point(str(POLICY), "main", tmp_path / "1")


def test_copy_with_other_timestamps_is_the_same_model(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(POLICY, model)
    point(str(model), None, tmp_path / "0")
    weights = model / "model.safetensors"
    weights.touch()
    assert resolve(tmp_path / "0") == model
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1  # as large as before
    weights.write_bytes(bytes(data))
    with pytest.raises(CoevolveError, match="have changed"):
        resolve(tmp_path / "0")


def test_relative_path_is_kept_and_resolved_from_an_experiment_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(POLICY, tmp_path / "models/tiny")
    (tmp_path / "queue").mkdir()
    monkeypatch.chdir(tmp_path / "queue")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    point("models/tiny", None, tmp_path / "0")
    assert json.loads((tmp_path / "0" / POINTER).read_text())["model"] == "models/tiny"
    assert resolve(tmp_path / "0").samefile(tmp_path / "models/tiny")


@pytest.mark.parametrize("model", ["./tiny", "../tiny", "/no/such/tiny", "models/a/tiny", "models/tin", "~/tiny"])
def test_missing_path_is_not_looked_up_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(CoevolveError, match=r"base.model: no such directory"):
        point(model, None, tmp_path / "0")
