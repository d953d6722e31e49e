from pathlib import Path

import pytest
import yaml

from coevolve.core.errors import CoevolveError
from coevolve.core.params import load
from tests import ROOT


def edited(tmp_path: Path, **changes: object) -> Path:
    """A copy of params.yaml with ``section__key`` (or ``key``) set, or removed for None."""
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = raw
        for parent in parents:
            place = place[parent]
        if value is None:
            del place[key]
        else:
            place[key] = value
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(raw))
    return file


def test_the_repository_s_params_are_valid() -> None:
    assert load(ROOT / "params.yaml").iterations[0].t == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"signals__windw": 3}, "unknown key signals.windw; did you mean 'window'?"),
        ({"trian": {}}, "unknown key trian; did you mean 'train'?"),
        ({"train__lora__rnk": 3}, "unknown key train.lora.rnk; did you mean 'rank'?"),
        ({"signals__window": None}, "missing key signals.window"),
        ({"signals__window": "three"}, "signals.window: "),
        ({"signals__window": 1}, "signals.window: "),
        ({"train__group_size": 1}, "train.group_size: "),
        ({"seed": -1}, "seed: "),
        ({"iterations": []}, "iterations: "),
        ({"iterations": [{"t": 0, "next": 2}]}, "expected {t: 0, next: 1}"),
        ({"iterations": [{"t": 0, "next": 1}, {"t": 2, "next": 3}]}, "expected {t: 1, next: 2}"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(tmp_path: Path, changes: dict[str, object], expected: str) -> None:
    with pytest.raises(CoevolveError) as caught:
        load(edited(tmp_path, **changes))
    message = str(caught.value)
    assert expected in message
    assert "params.yaml" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "expected"), [("a: [", "expected YAML"), ("- 1", "found list"), (None, "no such file")]
)
def test_a_file_that_is_no_params_file(tmp_path: Path, text: str | None, expected: str) -> None:
    file = tmp_path / "params.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CoevolveError, match=expected):
        load(file)
