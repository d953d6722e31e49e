"""The table of `coevolve evaluate`."""

import json
from pathlib import Path

import pytest

from coevolve.commands.evaluate import show
from coevolve.core.outcomes import Outcome
from coevolve.stages.evaluate.config import Evaluate
from tests.cli import coevolve

CONFIG = Evaluate(panels=None, tasks=2, samples=4, temperature=1.0, bootstrap=50, confidence=0.95)


def test_pass_at_k_is_blank_for_tasks_that_lack_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    """The environment failed in one episode of `broken`. All other episodes succeeded."""
    episodes = {"broken": 3, "whole": 4}
    outcomes = [
        Outcome("test", name, name, 1.0, True, "done", 1, 1, {})
        for name, count in episodes.items()
        for _ in range(count)
    ]
    show("test", outcomes, set(), CONFIG, 0)
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    place = rows["category"].index("pass@4") - len(rows["category"])
    assert [rows[name][place] for name in ("broken", "whole", "all", "mean")] == ["–", "1.000", "1.000", "1.000"]


def test_all_counts_tasks_and_mean_counts_categories(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [Outcome("test", str(n), "rare" if n else "often", 1.0, n == 0, "done", 1, 1, {}) for n in (0, 1, 2, 3)]
    show("test", outcomes, set(), CONFIG.model_copy(update={"samples": 1}), 0)
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert (rows["all"][1:3], rows["mean"][1]) == (["4", "0.250"], "0.500")


UNRULY = "tests.unit.environments.unruly:"


@pytest.mark.parametrize(
    ("habit", "said"),
    [
        ("Broken", "3 of 3 episodes broke: RuntimeError: the bulb is gone; repair the environment switches"),
        (
            "Alarmed",
            "3 of 3 episodes broke: ValueError: signal only works in main thread of the main interpreter; coevolve",
        ),
        ("Looped", "3 of 3 episodes broke: RuntimeError: There is no current event loop"),
        ("Shut", "3 of 3 episodes count nowhere: no session started: OSError: the house is locked; repair"),
        ("Unjudged", "3 of 3 episodes broke: RuntimeError: no judge"),
        ("Leaving", "3 of 3 episodes broke: SystemExit: 3"),
        ("Stuck", "3 of 3 episodes ran out of time: no answer within 0.3 s; let the call end"),
        ("Unlisted", "switches has no tasks of validation: KeyError: 'no list' ("),
    ],
)
def test_evaluation_that_is_interrupted_everywhere_is_one_error(habit: str, said: str) -> None:
    done = coevolve(
        "evaluate", "--environment", UNRULY + habit, "--policy", "reference", "-S", "policy.max_seconds=0.3"
    )
    assert done.returncode == 1 and done.stdout == ""
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert said in error
    assert habit == "Unlisted" or "validation, first task " in error


def test_interruptions_above_a_twentieth_begin_the_result(tmp_path: Path) -> None:
    out = tmp_path / "outcomes.jsonl"
    done = coevolve(
        *("evaluate", "--environment", f"{UNRULY}Fragile", "--policy", "reference", "--out", str(out)),
        *("--split", "seed", "--split", "validation"),
    )
    assert done.stdout.splitlines()[1] == "2 of 8 episodes broke: RuntimeError: the bulb is gone"
    assert "error: 2 of 8 references get less than 1; the first is task" in done.stderr and done.returncode == 1
    causes = [json.loads(line)["cause"] for line in out.read_text().splitlines()]
    assert sorted(causes)[-3:] == ["", *["RuntimeError: the bulb is gone"] * 2]


def test_a_reference_below_1_is_an_error_that_names_the_check() -> None:
    done = coevolve("evaluate", "--environment", f"{UNRULY}Half", "--policy", "reference")
    assert done.returncode == 1
    assert "3 of 3 references get less than 1" in done.stderr and "with 0.5, which fails: whole" in done.stderr


@pytest.mark.parametrize("habit", ["Switches", "Running", "Unclosed", "Shouting"])
def test_an_environment_that_plays_evaluates_and_its_prints_are_counted(habit: str) -> None:
    file = Path(__file__).parents[1] / "environments/unruly.py"
    done = coevolve("evaluate", "--environment", f"{file}:{habit}", "--policy", "reference")
    assert done.returncode == 0 and " 1.000 " in done.stdout
    said = [line for line in done.stdout.splitlines() if "pressing" in line]
    assert said == (["the environment printed 3 lines; the first: pressing"] if habit == "Shouting" else [])


@pytest.mark.parametrize(("kinds", "rows"), [(12, 12), (26, 0)])
def test_kinds_are_listed_if_they_are_few(kinds: int, rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [
        Outcome("test", str(n), f"kind{n % kinds}", 1.0, n % 2 == 0, "done", 1, 1, {}) for n in range(3 * kinds)
    ]
    show("test", outcomes, set(), CONFIG.model_copy(update={"samples": 1}), 0)
    printed = capsys.readouterr().out
    assert f"interval over {kinds} kinds of tasks" in printed
    assert sum(line.split()[0].startswith("kind") for line in printed.splitlines() if line.strip()) == rows


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--samples", "8", "--max-turns", "3"],
            "--samples is now -S evaluate.samples=VALUE; --max-turns is now -S policy",
        ),
        (["--url", "http://me:secret@host/v1"], "--url is now -S endpoint.url=VALUE"),
        (["-S", "evaluate.sampels=8"], "unknown key evaluate.sampels; did you mean 'samples'?"),
        (["-S", "evaluate.samples=8"], "samples above 1 needs a temperature above 0"),
        (["-S", "policy.max_turns=0"], "policy.max_turns: "),
        (["-S", "train.steps=3"], "-S train.steps: this command reads seed, policy, endpoint, evaluate only"),
        (["-S", "evaluate.panels=[hard]"], "-S evaluate.panels: name them by --split"),
        (["-S", "seed"], "-S seed: expected KEY=VALUE"),
        (["--policy", "http://me:secret@host/v1"], "endpoint.url: expected http://HOST/PATH"),
    ],
)
def test_wrong_setting_is_one_line_that_shows_the_right_form(given: list[str], said: str) -> None:
    done = coevolve("evaluate", "--environment", "miniworld", "--policy", "reference", "--tasks", "1", *given)
    assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert said in done.stderr and "secret" not in done.stderr


def test_settings_choose_tasks_and_temperature_allows_samples(tmp_path: Path) -> None:
    given = ["evaluate.tasks=3", "evaluate.samples=2", "evaluate.temperature=1", "seed=5"]
    flags = [word for setting in given for word in ("-S", setting)]
    out = tmp_path / "outcomes.jsonl"
    done = coevolve(
        "evaluate", "--environment", "miniworld", "--policy", "reference", "--out", str(out), *flags, "--split", "hard"
    )
    assert done.returncode == 0, done.stderr
    played = [json.loads(line) for line in out.read_text().splitlines()]
    assert [episode["panel"] for episode in played] == ["hard"] * 6
    assert len({episode["task_id"] for episode in played}) == 3 and "pass@2" in done.stdout
