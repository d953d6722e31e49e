"""The embedded policy: a standard model directory that can write any text, capable but unreliable."""

import shutil
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.io import read_json
from coevolve.core.seeding import rng_for
from coevolve.policies.tokenizer import build
from coevolve.stages.train.small_model import IGNORED, example
from coevolve_environments.miniworld import recipe
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.recipe import RELIABLE, Recipe, demonstrate, demonstrations, make, unreliable
from tests import POLICY
from tests.unit.stages.train.small import outputs

TOKENIZER = build(*Miniworld.lexicon())


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=60))
def test_any_text_can_be_encoded_and_decoded(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids) == text


def test_tools_keys_and_values_are_one_token_each() -> None:
    for name in Miniworld.lexicon()[0]:
        assert len(TOKENIZER.encode(name, add_special_tokens=False)) == 1, name


def test_only_the_policys_own_words_are_targets() -> None:
    messages = demonstrations(1, 3, RELIABLE)[0]
    one = example(TOKENIZER, messages)
    said = "".join(TOKENIZER.decode([token]) for token in one["labels"] if token != IGNORED)
    assert said == "".join(message["content"] + "<|end|>" for message in messages if message["role"] == "assistant")


def test_unreliable_demonstrator_corrupts_only_calls() -> None:
    tasks = Miniworld.generate("base", 60, 5, every=True)
    right = [demonstrate(task, RELIABLE, rng_for("x", n)) for n, task in enumerate(tasks)]
    wrong = [demonstrate(task, unreliable(1.0, 1.0, 0), rng_for("x", n)) for n, task in enumerate(tasks)]
    asking = [n for n, task in enumerate(tasks) if all(name.startswith("ask_") for name in task.tags[1:])]
    assert asking
    assert all(right[n] == wrong[n] for n in asking)
    assert sum(a != b for a, b in zip(right, wrong, strict=True)) == len(tasks) - len(asking)


SMALL = Recipe(copy_steps=2, demonstration_steps=2, unreliable_steps=2, layers=1, hidden=32)
TRAINED = ["config.json", "model.safetensors"]  # the files that steps and sizes decide


def test_the_small_form_has_the_same_bytes_each_time_and_the_shipped_policy_is_its_whole_form(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make(SMALL, tmp_path / name)
    assert outputs(tmp_path / "a") == outputs(tmp_path / "b")
    assert recipe.differing(tmp_path / "a") == TRAINED, (
        "the tokenizer, its template and the names are those of the package"
    )
    whole, small = (read_json(folder / "config.json") for folder in (POLICY, tmp_path / "a"))
    shape = {key: whole[key] for key in whole if whole[key] != small.get(key)}
    assert (shape["num_hidden_layers"], shape["hidden_size"]) == (Recipe.layers, Recipe.hidden)


def test_missing_further_and_other_files_differ(tmp_path: Path) -> None:
    shutil.copytree(POLICY, tmp_path / "copy")
    assert recipe.differing(tmp_path / "copy") == []
    (tmp_path / "copy/config.json").unlink()
    (tmp_path / "copy/tokenizer.json").write_text("{}")
    (tmp_path / "copy/more").write_text("")
    assert recipe.differing(tmp_path / "copy") == ["config.json", "more", "tokenizer.json"]
