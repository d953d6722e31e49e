"""Means, intervals and sentences of a study claim no more than the numbers support."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from studies.study_results import Result, Study, cut, draw, gains, load, report
from tests import ROOT

STUDY = Study(question="Why?", seeds=[0, 1, 2], panel="test", against=["static"], arms={"static": {}, "signals": {}})


def run(arm: str, seed: int, last: float) -> Result:
    figures = {"tasks added": 16, "training episodes": 100 + seed, "gradient steps": 60}
    costs = ["training episodes", "gradient steps"]
    return Result(arm, seed, {"test": [0.5, last], "hard": [0.1, 0.1]}, figures, costs, "0123abc", f"{arm}{seed}")


def results(gains: list[float]) -> list[Result]:
    return [run("static", seed, 0.6) for seed in range(len(gains))] + [
        run("signals", seed, 0.6 + gain) for seed, gain in enumerate(gains)
    ]


def test_differences_are_paired_by_seed() -> None:
    found = [*results([0.1, 0.12, 0.11]), run("signals", 9, 0.0)]  # seed 9 has no partner
    assert gains(found, "signals", "static", "test") == pytest.approx([0.1, 0.12, 0.11])
    assert gains(found, "signals", "random", "test") == []


def test_report_marks_significance_by_the_interval() -> None:
    sure = report(STUDY, results([0.10, 0.12, 0.11]))
    assert "| signals | +21.0 ± 2.5* | +11.0 ± 2.5* |" in sure
    assert "Code: 0123abc (6 runs)." in sure
    assert "| hard | tasks added | training episodes |" in sure and "| 16 | 101 |" in sure  # not what is equal in all
    unsure = report(STUDY, results([0.2, -0.1, 0.05]))
    assert "+5.0 ± 37.3 |" in unsure and "+5.0 ± 37.3*" not in unsure
    assert "(one seed)" in report(STUDY, results([0.3]))


def test_figure_shows_every_arm_and_is_deterministic() -> None:
    found = results([0.1, 0.2, 0.3])
    figure = draw(STUDY, found)
    assert figure == draw(STUDY, found) and all(f">{name}<" in figure for name in STUDY.arms)


@pytest.mark.parametrize("added", [[0.4, -0.3], [0.4, -0.3, 0.1]], ids=["two seeds", "three seeds"])
def test_bands_stay_within_the_range_of_success(added: list[float]) -> None:
    labels = re.findall(r">(−?\d+\.\d+)<", draw(STUDY, results(added)))
    assert labels and all(0.0 <= float(label.replace("−", "-")) <= 1.0 for label in labels)


def test_ablation_study_is_valid_and_mistakes_are_named(tmp_path: Path) -> None:
    study = load(ROOT / "studies/ablation/study.yaml")
    assert len(study.seeds) >= 5 and {"static", "random", "signals", "unverified"} <= set(study.arms)
    with pytest.raises(CoevolveError, match=r"no such file; name a folder with a study.yaml"):
        load(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text("question: q\nseeds: [0]\npanel: test\nagainst: [a]\narms: {b: {}}\n")
    with pytest.raises(CoevolveError, match=r"against, claims: no arm a; expected some of: b"):
        load(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text("question: q\nseed: [0]\npanel: test\nagainst: []\narms: {b: {}}\n")
    with pytest.raises(CoevolveError, match=r"study.seed"):
        load(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("arm", "changes", "said"),
    [
        ("a", "[1]", "study.arms.a: "),
        ("a", "{seed: 5}", "arms.a: seed is not for an arm"),
        ("a", "{compute.engine: ray}", "arms.a: compute.engine is not for an arm"),
    ],
)
def test_arm_that_the_study_cannot_run_is_refused(tmp_path: Path, arm: str, changes: str, said: str) -> None:
    (tmp_path / "study.yaml").write_text(
        f'question: q\nseeds: [0]\npanel: test\nagainst: []\narms: {{"{arm}": {changes}}}\n'
    )
    with pytest.raises(CoevolveError, match=said) as caught:
        load(tmp_path / "study.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/study.yaml: ") and "\n" not in str(caught.value)


def test_study_needs_the_panels_it_reports(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    text = "question: q\nseeds: [0]\npanel: validation\nagainst: []\ncommon: {evaluate.panels: [validation]}\n"
    file.write_text(text + "arms: {a: {}, b: {evaluate.panels: [validation, test]}}\n")
    assert load(file).arms["b"] == {"evaluate.panels": ["validation", "test"]}
    claims = "claims: [{arm: a, over: b, panel: test, mean: 0.0, clear: 0.0}]\n"
    file.write_text(text + claims + "arms: {a: {}, b: {}}\n")
    with pytest.raises(CoevolveError, match=r"arms.a: evaluate.panels omits test, which the study needs"):
        load(file)
    file.write_text(text + claims.replace("test", "solved before") + "arms: {a: {}, b: {}}\n")
    with pytest.raises(CoevolveError, match=r"omits solved before, which the study needs"):
        load(file)  # no subsets, so no parts
    file.write_text(
        text + claims.replace("test", "solved before") + "subsets: {mail: [find_mail]}\narms: {a: {}, b: {}}\n"
    )
    assert load(file).parts == ["mail", "other tasks", "solved before"]


def test_runs_with_different_panels_share_a_table() -> None:
    (first, second, *others) = results([0.10, 0.12])
    less = replace(first, success={"test": first.success["test"]})
    more = replace(second, success={**second.success, "solved before": [1.0, 0.9]})
    text = report(STUDY, [less, more, *others])
    assert "| arm | seeds | test | hard | solved before |" in text
    assert "| signals | 2 | 0.710 ± 0.127 | 0.100 ± 0.000 |  |" in text


def test_panel_is_split_by_tools() -> None:
    def task(number: int, *names: str) -> Task:
        return Task.create("e", "test", [str(number)], {}, [[ToolCall(name) for name in names]])

    tasks = [task(1, "a", "end"), task(2, "b", "end"), task(3, "b", "a", "end"), task(4, "c", "end")]
    ids = [one.task_id for one in tasks]
    solved = [dict.fromkeys(ids, False), dict(zip(ids, (True, False, True, True), strict=True))]
    assert cut({"a or d": ["a", "d"]}, tasks, solved) == {"a or d": [0.0, 1.0], "other tasks": [0.0, 0.5]}
    assert cut({"none": ["x"]}, tasks, solved) == {"other tasks": [0.0, 0.75]}
    some = [dict(zip(ids, (False, True, True, False), strict=True)), *solved]
    assert cut({"none": ["x"]}, tasks, some)["solved before"] == [1.0, 0.0, 0.5], "one of two regressed"
    assert load(ROOT / "studies/generalization/study.yaml").subsets


def test_arms_are_compared_with_their_start_and_panels_by_parts() -> None:
    found = [
        replace(one, success={**one.success, "mail": [0.4, 0.1], "other tasks": [0.4, 0.4]})
        for one in results([0.10, 0.12, 0.11])
    ]
    text = report(STUDY.model_copy(update={"subsets": {"mail": ["find_mail"]}}), found)
    of_mail = text.split("Differences on mail")[1].split("Differences on")[0]
    assert "| static | -30.0 ± 0.0* |  |" in of_mail
    assert "| static | +0.0 ± 0.0 |  |" in text.split("Differences on other tasks")[1]
