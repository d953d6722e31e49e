from pathlib import Path

import pytest
import yaml

from coevolve.core.errors import CoevolveError
from coevolve.stages.schema import load, parse, plain, sections, value
from tests import ROOT


def edited(tmp_path: Path, **changes: object) -> Path:
    """A copy of params.yaml with ``section__key`` (or ``key``) set, in a new section if needed. ``...`` removes it."""
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    for path, change in changes.items():
        *parents, key = path.split("__")
        place = raw
        for parent in parents:
            place = place.setdefault(parent, {})
        if change is ...:
            del place[key]
        else:
            place[key] = change
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(raw))
    return file


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trian": {}}, "unknown key trian; did you mean 'train'?"),
        ({"train__lora__rnk": 3}, "unknown key train.lora.rnk; did you mean 'rank'?"),
        ({"learners": {}}, "unknown key learners; remove it, or see docs"),
        ({"iterations": ...}, "missing key iterations; add it"),
        ({"sft": None}, "sft: "),
        ({"learners": {}, "a\nb" * 200: 1}, "unknown key "),
        ({"environment": "minworld"}, "(did you mean 'miniworld'?), found 'minworld'; change it"),
        (
            {"explore__guidance": "covrage"},
            "expected one of: signals, coverage, random, generator (did you mean 'coverage'?)",
        ),
        (
            {"explore__guidance": "placebo.py"},
            "explore.guidance: there is no such file; expected a path from the project's",
        ),
        ({"policy__max_seconds": float("inf")}, "policy.max_seconds: Input should be a finite number"),
        (
            {"train__anchor": "base", "train__lora__enabled": True},
            "train: anchor: base and lora.enabled: true do not go together",
        ),
        (
            {"verify__select": {"shape": "bell", "keep": 8, "variety": 0.0}, "verify__pass_rate_samples": 0},
            "verify: select needs pass rates, but pass_rate_samples is 0; change one of them",
        ),
        (
            {"train__learner": "dpo", "policy__backend": "vllm"},
            "pairs.hard: 0.5 and policy.backend: vllm do not go together",
        ),
        ({"explore__guidance": "generator"}, "explore.guidance: generator and generate.model: none do not go together"),
        ({"generate__model": "tiny"}, "explore.guidance: signals and generate.model: tiny do not go together"),
        (
            {"explore__guidance": "generator", "generate__model": "tiny", "explore__explorer": "endpoint"},
            "explore.guidance: generator and explore.explorer: endpoint do not go together",
        ),
        (
            {
                "explore__guidance": "generator",
                "generate__model": "tiny",
                "verify__pass_rate_samples": 0,
                "verify__select": None,
            },
            "generate.frozen: false needs pass rates to learn from, and verify.pass_rate_samples is 0",
        ),
        (
            {"explore__guidance": "generator", "generate__model": "tiny", "synthesize__count": 767},
            "synthesize.count: 767 is less than explore.explorations: 768",
        ),
        ({"evaluate__samples": 4}, "samples above 1 needs a temperature above 0"),
        ({"evaluate__panels": []}, "evaluate.panels: "),
        ({"evaluate__panels": ["test"]}, "report.panel is validation, which evaluate.panels omits"),
        ({"iterations": [{"t": 0, "next": 2}]}, "expected {t: 0, next: 1}"),
    ],
)
def test_mistake_is_a_one_line_error_that_names_the_key(
    tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    with pytest.raises(CoevolveError) as caught:
        load(edited(tmp_path, **changes))
    message = str(caught.value)
    assert expected in message
    assert "params.yaml" in message
    assert "\n" not in message and len(message) < 900


def test_all_other_keys_have_defaults() -> None:
    params = parse({"iterations": [{"t": 0, "next": 1}]}, "here")
    assert set(plain(params)) == {"seed", "method", "environment", "iterations", *sections()}
    assert params == parse(plain(params), "here")
    assert params.learner == params.learners["grpo"] and value(params, "learner") == plain(params)["grpo"]


def test_params_yaml_repeats_the_defaults() -> None:
    """A reader of the file sees the values that apply to omitted keys."""
    params = load(ROOT / "params.yaml")
    assert params == parse({"iterations": plain(params)["iterations"]}, "here")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 384),
        ({"explore__explorations": 9}, 4),
        ({"synthesize__count": 7}, 7),
        ({"method": "genenv"}, 768),
        ({"method": "genenv", "generate__frozen": True}, 768),
        ({"method": "genenv", "synthesize__count": 900}, 900),
    ],
)
def test_number_of_candidates_follows_the_number_of_explorations(
    tmp_path: Path, changes: dict[str, object], expected: int
) -> None:
    params = load(edited(tmp_path, **changes))
    assert params.candidates == value(params, "candidates") == expected


def test_setting_one_limit_of_a_watchdog_keeps_the_other(tmp_path: Path) -> None:
    drift = load(edited(tmp_path, validate__drift__critical=0.05)).validate_.drift
    assert (drift.limit, drift.critical) == (0.3, 0.05)
