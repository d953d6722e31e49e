"""The embedded policy: a standard model directory that can write any text, capable but unreliable."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.seeding import rng_for
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.stages.base.recipe import RELIABLE, demonstrate, demonstrations, make, unreliable
from coevolve.stages.base.small import IGNORED, example
from coevolve.stages.base.tokenizer import build
from coevolve.stages.schema import load as load_params
from tests import ROOT

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


def test_recipe_is_deterministic(tmp_path: Path) -> None:
    config = load_params(ROOT / "params.yaml").base.model_copy(
        update={"copy_steps": 2, "demonstration_steps": 2, "unreliable_steps": 2, "layers": 1, "hidden": 32}
    )
    for name in ("a", "b"):
        make(config, tmp_path / name)
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == sorted(
        file.name for file in (ROOT / "policies/base").iterdir()
    )
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name
