"""The parameters that fit an environment and a pretrained model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.commands.fit import RULES, WEIGHT, Measured, fitted, lines, minutes
from coevolve.core.errors import CoevolveError
from coevolve.stages.schema import load, value
from tests import ROOT

# SmolLM2-135M-Instruct in the support desk of studies/desk-smollm2, with 20 GB free
DESK = Measured(
    turns=3,
    episode=380,
    reply=40,
    prompt=270.0,
    completion=60.0,
    tasks=200,
    panels=(100, 200, 40),
    parameters=134_515_008,
    layers=30,
    width=576,
    vocabulary=49152,
    context=8192,
    memory=20e9,
    gpu=False,
    multiplies_bfloat16=True,
    native=True,
    play=1.0,
    learn=0.01,
)


def test_the_desk_gets_the_settings_with_which_it_was_learned_by_hand() -> None:
    values = fitted(DESK)
    expected = {
        "policy.max_turns": 5, "policy.episode_tokens": 512, "policy.reply_tokens": 64, "policy.dtype": "bfloat16",
        "warm.until": 0.35, "warm.adapters": False, "warm.learning_rate": 0.0004, "train.group_size": 8,
        "train.tasks_per_step": 8, "grpo.beta": 0.0, "evaluate.tasks": 200,
    }  # fmt: skip
    assert {key: values[key] for key in expected} == expected


def test_every_key_exists_once_and_says_what_decides_it() -> None:
    keys = [key for key, _, _ in RULES]
    params = load(ROOT / "params.yaml")
    for key in keys:
        value(params, key)
    assert len({*keys}) == len(keys) and all(why for _, why, _ in RULES)
    assert {*fitted(DESK)} == {*keys}


@given(
    st.integers(10**6, 2 * 10**9),
    st.integers(20, 4000),
    st.floats(1e9, 2e11),
    st.integers(1, 5000),
    st.integers(1, 900),
)
def test_values_fit_memory_tokens_and_tasks(
    parameters: int, episode: int, memory: float, tasks: int, panel: int
) -> None:
    one = replace(DESK, parameters=parameters, episode=episode, memory=memory, tasks=tasks, panels=(panel,))
    if 4 * parameters + one.row > memory:
        with pytest.raises(CoevolveError, match=r"training needs .* GB, activations of one episode included"):
            fitted(one)
        return
    values = fitted(one)
    assert values["policy.episode_tokens"] >= episode
    assert values["train.tasks_per_step"] <= tasks and values["evaluate.tasks"] <= panel
    assert 4 <= values["train.steps"] <= 12
    assert values["train.micro_batch"] in (1, 2, 4, 8)
    assert values["train.micro_batch"] == 1 or 4 * parameters + values["train.micro_batch"] * one.row <= memory
    if not values["warm.adapters"]:
        assert WEIGHT * parameters < memory
    assert values["warm.learning_rate"] == (0.001 if values["warm.adapters"] else 0.0004)


def test_a_person_reads_minutes_and_intervals() -> None:
    values = fitted(DESK)
    told = lines(DESK, values)
    least = minutes(DESK, values)
    assert told[0].startswith(f"an iteration takes about {least:.0f} to {1.5 * least:.0f} min ")
    assert told[1].startswith("run it with COEVOLVE_ARITHMETIC=native too") and len(told) == 2
    shared = replace(DESK, native=False)
    assert fitted(shared)["policy.dtype"] == "float32"
    assert "with COEVOLVE_ARITHMETIC=native, before `coevolve init` and `dvc repro`" in lines(shared, fitted(shared))[1]
    assert len(lines(replace(DESK, gpu=True), values)) == 1
    poor = replace(DESK, panels=(19, 7), multiplies_bfloat16=False)
    assert lines(poor, fitted(poor))[1:] == ["a panel of 19 tasks has an interval of ±0.22: write more tasks"]


def test_few_training_tasks_are_named_and_do_not_stop_the_loop() -> None:
    poor = replace(DESK, tasks=6)
    assert fitted(poor)["validate.tasks.critical"] == 6 and fitted(DESK)["validate.tasks.critical"] == 16
    assert lines(poor, fitted(poor))[-1] == "seed has 6 tasks, from which the loop makes few new ones: write more tasks"


def test_minutes_count_the_tasks_that_each_panel_has_and_the_processes_that_play_them() -> None:
    values = fitted(DESK)
    played = replace(DESK, learn=0.0)
    attempts, tested, evaluated = 12 * 64, 64 * 2, 100 + 200 + 40
    assert minutes(played, values) == pytest.approx((attempts + tested + evaluated) / 60)
    assert minutes(replace(played, processes=4), values) == pytest.approx((attempts + (tested + evaluated) / 4) / 60)
    long = replace(played, panels=(100, 5000, 40))
    assert minutes(long, fitted(long)) == minutes(played, values)
    assert minutes(replace(DESK, play=2.0, learn=0.02), values) == pytest.approx(2 * minutes(DESK, values))


def test_six_of_ten_groups_are_trained_on() -> None:
    """A step of two groups: their prompts once, and eight completions of each, a quarter longer than the reference's."""
    one = replace(DESK, tasks=2, play=0.0, learn=1.0)
    values = fitted(one)
    assert minutes(one, values) == pytest.approx(values["train.steps"] * 2 * 0.6 * (270 + 8 * 1.25 * 60) / 60)


def test_a_model_that_cannot_read_the_references_is_refused_and_an_episode_ends_with_its_context() -> None:
    with pytest.raises(CoevolveError, match=r"the longest reference has 380 tokens, .* the model reads 379"):
        fitted(replace(DESK, context=379))
    assert fitted(replace(DESK, context=400))["policy.episode_tokens"] == 400
