"""Profiles have valid values, keep the comments of the file, and can be undone."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from coevolve.commands.profile import ADDED, WHOLE, _text, apply, names
from coevolve.core.errors import CoevolveError
from coevolve.core.section import dotted, read_yaml
from coevolve.lineage.schemas import schemas
from coevolve.stages.schema import load, value
from tests import ROOT


@pytest.fixture
def params(tmp_path: Path) -> Path:
    file = tmp_path / "params.yaml"
    file.write_bytes((ROOT / "params.yaml").read_bytes())
    return file


def values(name: str) -> dict[str, object]:
    return dotted(read_yaml(_text(name)), whole=WHOLE)


def test_laptop_profile_equals_the_default_parameters(params: Path) -> None:
    assert apply("laptop", params) == []
    assert params.read_bytes() == (ROOT / "params.yaml").read_bytes()


LAPTOPS = ("laptop", "smoke", "smollm2-135m")  # the others are for GPUs
METHODS = {"genenv-qwen3-4b": "genenv", "hardneg-qwen3-4b": "coevolving_agents"}


def alike(file: Path) -> str:
    """The text without alignment. Comments stand in one column, which a long value pushes to the right."""
    return re.sub(" +#", " #", file.read_text())


@pytest.mark.parametrize("name", [name for name in names() if name != "laptop"])
def test_profile_is_valid_keeps_comments_and_can_be_undone(name: str, params: Path) -> None:
    changes = apply(name, params)
    expected = {"train.steps"} if name == "smoke" else {"base.model", "grpo.learning_rate"}
    assert expected <= {key for key, _, _ in changes}
    loaded = load(params)
    Draft202012Validator(schemas()["params"]).validate(read_yaml(params.read_text()))
    assert all(value(loaded, key) == new != old for key, old, new in changes)
    for key, new in values(name).items():
        held = value(loaded, key)
        assert held == new or (isinstance(new, dict) and new.items() <= held.items()), key
    assert loaded.method == METHODS.get(name, "coevolve")
    if name not in LAPTOPS:
        assert loaded.environment != "miniworld"
        assert (
            loaded.train.group_size == 8 and loaded.train.tasks_per_step == 32 and value(loaded, "grpo.beta") == 0.001
        )
        assert loaded.policy.dtype == "bfloat16"
    comments = [line.partition("#")[2] for line in (ROOT / "params.yaml").read_text().splitlines() if "#" in line]
    kept = [line.partition("#")[2] for line in params.read_text().splitlines() if "#" in line and ADDED not in line]
    assert kept == comments
    rows = loaded.train.tasks_per_step * loaded.train.group_size
    assert rows % (loaded.launch.processes * loaded.launch.machines * max(loaded.train.micro_batch, 1)) == 0
    apply("laptop", params)
    assert alike(params) == alike(ROOT / "params.yaml")


def test_key_added_by_the_user_is_set_and_stays(params: Path) -> None:
    params.write_text(params.read_text().replace("policy:\n", "policy:\n  backend: transformers  # ours\n"))
    for name in ("qwen3-4b", "laptop"):
        apply(name, params)
        assert f"  backend: {values(name)['policy.backend']}" in params.read_text()
    assert params.read_text().count("# ours") == 1


def test_every_profile_sets_the_keys_of_every_other() -> None:
    assert [name for name in names() if set(values(name)) != set(values("laptop"))] == []


def test_values_set_by_the_user_stay(params: Path) -> None:
    params.write_text(params.read_text().replace("seed: 0    ", "seed: 7    ", 1).replace("window: 5 ", "window: 9 "))
    apply("qwen3-4b", params)
    assert load(params).seed == 7 and load(params).signals.window == 9


def test_unknown_profile_and_broken_file_are_errors(params: Path) -> None:
    with pytest.raises(
        CoevolveError, match=r"no profile 'qwen'; expected one of: genenv-qwen3-4b, hardneg-qwen3-4b, laptop"
    ):
        apply("qwen", params)
    params.write_text(params.read_text().replace("beta:", "bata:"))
    with pytest.raises(CoevolveError, match=r"unknown key grpo.bata; did you mean 'beta'"):
        apply("qwen3-4b", params)


def test_real_models_page_lists_every_profile() -> None:
    page = (ROOT / "docs/training-at-size.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([\w.-]+)` \|", page.partition("## ")[0], re.MULTILINE)) == names()


def test_pages_named_in_profiles_exist() -> None:
    named = {
        page
        for name in names()
        for page in re.findall(
            r"docs/[\w/-]+\.md", (ROOT / f"src/coevolve/commands/profiles/{name}.yaml").read_text("utf-8")
        )
    }
    assert named and all((ROOT / page).is_file() for page in named)
