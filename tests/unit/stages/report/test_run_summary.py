"""A run summarized from the stages' own summaries. Table, curve, page, study and comparison show any stage."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from coevolve.core.champion import ChampionRule
from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_json, write_json, write_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, metrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import Iteration
from coevolve.core.records import Signal
from coevolve.core.section import dotted
from coevolve.core.stage_summary import ACCEPTED, TASKS, StageSummary, write_summary
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory, write_trajectories
from coevolve.lineage.comparison import Side, history
from coevolve.stages.evaluate.evaluation import summary as evaluated
from coevolve.stages.report.run_summary import Summary, run_hash, summarize
from coevolve.stages.report.tables import by_iteration, table, totals
from coevolve.stages.report.write import Weak, origins, weak, weakest, write
from coevolve.stages.schema import Params
from coevolve.stages.schema import load as load_params
from studies.study_results import Study, report, result
from tests import ROOT

SUCCESSES = [60, 90, 92, 40]  # of 128 tasks, by policy
SIZES = [3, 5, 6, 9]  # of datasets


@pytest.fixture
def params() -> Params:
    loaded = load_params(ROOT / "params.yaml")
    return loaded.model_copy(update={"iterations": [Iteration(t=t, next=t + 1) for t in range(3)]})


@pytest.fixture
def run(params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that three iterations leave for the report, and the pipeline's graph."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text())
    for t, (solved, size) in enumerate(zip(SUCCESSES, SIZES, strict=True)):
        played = [
            Outcome("validation", f"{n:016x}", "f", float(n < solved), n < solved, "done", 4, 40, {})
            for n in range(128)
        ]
        found = metrics(played, params.evaluate, 0)
        write_jsonl(Paths.evaluation(t) / OUTCOMES, played)
        write_json(Paths.evaluation(t) / "metrics.json", {panel: asdict(one) for panel, one in found.items()})
        write_summary(evaluated(t, found))
        calls = [[ToolCall("pay")]]
        write_jsonl(Paths.tasks(t), [Task.create("e", "s", [str(n)], {}, calls, ["pay"]) for n in range(size)])
        write_summary(StageSummary("validate" if t else "tasks", t, {TASKS: size}, columns=[TASKS]))
    for t in range(3):
        spent = {"endpoint replies": 10, "endpoint prompt tokens": 1370, "endpoint completion tokens": 30}
        spent |= {"candidates": 9}
        write_summary(StageSummary("train", t, {"gradient steps": 20, "loss": 0.5 * t}, costs=["gradient steps"]))
        steps = [{"step": step, "success": t / 4, "score": 0.5, "kl": 0.1} for step in range(t)]
        write_jsonl(Paths.data(t) / "train_metrics.jsonl", steps)
        write_summary(StageSummary("signals", t, {"forgetting": 1, "rare": 3 + t}, columns=["forgetting", "rare"]))
        figures = {**spent, "endpoint dollars": 0.07}
        late = ["replies dropped: 2"] if t == 1 else []
        write_summary(StageSummary("synthesize", t, figures, columns=["candidates"], costs=list(figures), notes=late))
        write_summary(StageSummary("verify", t, {ACCEPTED: 7, "pass rate": 0.5}, columns=[ACCEPTED]))
    return tmp_path


def summed(params: Params) -> Summary:
    report, evaluate = params.report, params.evaluate
    rule = ChampionRule(report.panel, report.max_regressions, evaluate.bootstrap, evaluate.confidence, 0)
    return summarize("0123", "miniworld", params.iterations, rule)


def lines_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]


def test_table_has_a_row_for_every_policy(params: Params, run: Path) -> None:
    text = table(summed(params))
    assert text.splitlines()[1].split() == [
        "t", "tasks", "forgetting", "rare", "candidates", "accepted", "validation",
    ]  # fmt: skip
    found = lines_of(text)
    assert found[0] == ["0", "3", "1", "3", "9", "7", "0.47", "±0.08"]
    assert found[2][:6] == ["2", "6", "1", "5", "9", "7"]
    assert found[3][:6] == ["3", "9", "-", "-", "-", "-"]
    assert "Champion on validation: policies/1. policies/1 stays, as policies/3" in text
    assert "Note: Iteration 1: replies dropped: 2." in text
    assert "Budget: 60 gradient steps, 30 endpoint replies, 4,110 endpoint prompt tokens, " in text
    assert "0.21 endpoint dollars, 512 evaluation episodes, 20,480 evaluation tokens" in text
    assert "`dvc exp show --only-changed --drop '.*/.*' --keep 'success\\.'`" in text


def test_summary_is_read_back_as_written(params: Params, run: Path) -> None:
    made = summed(params)
    write_json(run / "summary.json", asdict(made))
    assert parse(Summary, read_json(run / "summary.json"), "summary.json") == made
    with pytest.raises(CoevolveError, match=r"old.json: run: Field required; expected a Summary record"):
        parse(Summary, {"environment": "miniworld", "policies": []}, "old.json")


def test_run_states_its_arithmetic(params: Params, run: Path) -> None:
    assert "Run 0123, computed by unknown" in table(summed(params))
    for t, name in enumerate(("shared", "native 12: other", "shared")):
        write_summary(StageSummary("train", t, {}, arithmetic=name))
    assert "Run 0123, computed by shared; native 12: other\n" in table(summed(params))


def test_run_hash_depends_only_on_datasets_and_policies(run: Path) -> None:
    for t in range(2):
        write_json(Paths.policy(t) / "config.json", {"t": t})
    found = run_hash(1)
    write_json(Path("scratch/seconds.jsonl"), {"stage": "train/0", "seconds": 1.0})
    write_summary(StageSummary("train", 0, {"seconds": 2.0}))
    assert run_hash(1) == found
    for file in (Paths.tasks(0), Paths.tasks(1), Paths.policy(0) / "config.json", Paths.policy(1) / "config.json"):
        before = file.read_bytes()
        file.write_bytes(before + b"\n")
        assert run_hash(1) != found
        file.write_bytes(before)
    assert run_hash(1) == found


def test_dvc_shows_success_first_and_draws_one_line_per_panel(params: Params, run: Path) -> None:
    """`dvc exp show` has a column per scalar, and DVC's line plot has no colour for a panel."""
    made = summed(params)
    hard = [{**panels, "hard": replace(panels["validation"], success=t / 4)} for t, panels in enumerate(made.policies)]
    write_episodes([])
    write(replace(made, policies=hard), 1)
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    (metrics_file,), (plots, *training) = pipeline["metrics"], pipeline["plots"]
    shown = dotted(read_json(run / metrics_file))
    assert list(shown)[:2] == ["success.validation", "success.hard"] and len(shown) == 9
    assert shown["success.hard"] == 0.75 and shown["success_before.validation"] == 60 / 128
    assert shown["gain.validation"] == pytest.approx(-20 / 128)
    assert (shown["accepted_tasks"], shown["training_tokens"], shown["run"]) == (21, 0, "0123")
    ((folder, axes),) = plots.items()
    assert {path.name for path in (run / folder).iterdir()} == {"validation.csv", "hard.csv"}
    with (run / folder / "hard.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line[axes["x"]], line[axes["y"]]) for line in lines] == [(str(t), str(t / 4)) for t in range(4)]
    axes_of_training = [plot for one in training for plot in one.values()]
    ((file,),) = {tuple(plot["y"]) for plot in axes_of_training}
    with (run / file).open() as text:
        rows = list(csv.DictReader(text))
    assert {plot["x"] for plot in axes_of_training} | {plot["y"][file] for plot in axes_of_training} <= set(rows[0])
    found = [(row["step"], row["iteration"], row["success"], row["loss"], row["kl"]) for row in rows]
    assert found == [("0", "1", "0.25", "", "0.1"), ("1", "2", "0.5", "", "0.1"), ("2", "2", "0.5", "", "0.1")]


def test_tracker_gets_success_by_iteration_and_every_stages_figures(params: Params, run: Path) -> None:
    made = summed(params)
    found = totals(made)
    assert found["validation/gain"] == pytest.approx(-20 / 128)
    assert found["budget/gradient steps"] == 60
    each = by_iteration(made, {"train/1": 12.5, "base": 3.0, "train/8": 1.0})
    assert [row["validation/success"] for row in each] == [solved / 128 for solved in SUCCESSES]
    assert [row["tasks"] for row in each] == SIZES
    assert each[1]["signals/rare"] == 4 and each[1]["seconds/train"] == 12.5
    assert each[3]["validate/tasks"] == 9 and "signals/rare" not in each[3]


def unread(count: int) -> str:
    return f"{count} of 100 replies ({count}%) hold a call that cannot be read; the first: '<pay {count}'"


def test_a_cause_is_noted_once_with_its_latest_numbers(params: Params, run: Path) -> None:
    lost = "the environment failed in every episode of 2 tasks: a, b"
    write_summary(StageSummary("indicators", 0, {}, notes=[unread(10), lost]))
    write_summary(StageSummary("indicators", 1, {}, notes=[unread(11)]))
    write_summary(StageSummary("evaluate", 0, {}, notes=[unread(6)]))
    write_summary(StageSummary("evaluate", 3, {}, notes=[unread(9)]))
    assert summed(params).notes == [
        "Iteration 1: replies dropped: 2.",
        f"Iteration 1 (also 0): {unread(11)}.",
        f"Iteration 0: {lost}.",
        f"Evaluation of policies/3 (also 0): {unread(9)}.",
    ]


def test_policy_that_solves_almost_nothing_is_noted(params: Params, run: Path) -> None:
    for t in range(4):
        found = read_json(Paths.evaluation(t) / "metrics.json")
        write_json(Paths.evaluation(t) / "metrics.json", {**found, "hard": {**found["validation"], "success": 0.01}})
    assert any("solves almost nothing of hard (under 5%" in note for note in summed(params).notes)


def with_stage(folder: Path, name: str, t: str = "t") -> None:
    """The graph with one more stage, which runs before all others of an iteration."""
    graph = yaml.safe_load((folder / "dvc.yaml").read_text())
    out = {f"data/${{item.{t}}}/summary/{name}.json": {"cache": False}}
    stage = {"foreach": "${iterations}", "do": {"cmd": f"python pipelines/{name}.py", "outs": [out]}}
    graph["stages"] = {name: stage, **graph["stages"]}
    (folder / "dvc.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))


def test_unknown_stage_is_shown_everywhere(params: Params, run: Path) -> None:
    with_stage(run, "partners")
    for t in range(3):
        figures = {"pairs": 11, "rehearsals": 100 + t, "margin": 0.25, "closeness": None}
        write_summary(StageSummary("partners", t, figures, ["pairs"], ["rehearsals"], ["odd"]))
    made = summed(params)
    text = table(made)
    assert text.splitlines()[1].split()[:3] == ["t", "pairs", "tasks"]
    assert [row[1] for row in lines_of(text)] == ["11", "11", "11", "-"]
    assert "Budget: 303 rehearsals, 60 gradient steps" in text
    assert "Iteration 2 (also 0, 1): odd." in text
    study = Study(question="?", seeds=[0], panel="validation", against=[], arms={"arm": {}, "other": {}})
    runs = [
        result(study, ("arm", 0), made, {}, ""),
        result(study, ("other", 0), replace(made, budget={"rehearsals": 1}), {}, ""),
    ]
    assert {"pairs", "rehearsals", "accepted", "tasks added"} <= set(runs[0].figures)
    assert runs[0].figures["pairs"] == 33
    assert "| tasks added | rehearsals |" in report(study, runs)
    assert history(Side("a", 2, {}, made, []))["pairs"] == 22


def test_stages_no_longer_in_the_graph_are_not_shown(params: Params, run: Path) -> None:
    before = summed(params)
    write_summary(StageSummary("partners", 0, {"partners": 1}, columns=["partners"]))  # of no stage
    write_summary(StageSummary("train", 3, {"gradient steps": 20}, costs=["gradient steps"]))  # of no iteration
    assert summed(params) == before


def test_report_depends_on_the_last_summary_of_every_stage() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]

    def summaries(outs: Sequence[str]) -> set[str]:
        return {out for out in outs if isinstance(out, str) and "/summary/" in out}

    written = set.union(*(summaries(stage.get("do", stage).get("outs", [])) for stage in stages.values()))
    last = {out.replace("${item.", "${iterations[-1].") for out in written}
    assert len(written) >= 10 and last == summaries(stages["report"]["deps"])


def episode(name: str, task: str, score: float) -> Trajectory:
    return Trajectory(name, task, 0, 0, 0, 0, [{"role": "user", "content": "?"}], [], score, StopReason.DONE)


def write_episodes(first: Sequence[Trajectory]) -> None:
    """``first`` are the episodes of iteration 0. Other iterations have none."""
    for t in range(3):
        write_trajectories(Paths.trajectories(t), [] if t else first)


def test_weakest_episodes_are_of_different_tasks() -> None:
    many = [episode("a", "x", 0.0), episode("b", "x", 0.1), episode("c", "y", 0.4), episode("d", "z", 1.0)]
    assert [found.trajectory_id for found in weakest(many, 3, {})] == ["a", "c", "d"]
    assert [found.trajectory_id for found in weakest(many, 4, {})] == ["a", "c", "d", "b"]


def test_episode_that_the_environment_failed_is_not_weak() -> None:
    failed = replace(episode("e", "x", 0.0), stop_reason=StopReason.ENVIRONMENT_FAILED)
    assert [found.trajectory_id for found in weakest([failed, episode("a", "y", 0.5)], 2, {})] == ["a"]
    assert weakest([failed], 2, {}) == []
    assert origins([Weak(failed, [], ["new"]), Weak(episode("a", "y", 0.0), [], [])]) == {"y": "a"}


def test_new_tasks_link_to_their_origin_failure_and_others_to_their_own(params: Params, run: Path) -> None:
    """Among equally weak trajectories, those that new tasks grew from are logged first."""
    write_episodes([episode("a", "x", 0.0), episode("b", "y", 0.0), episode("c", "z", 1.0)])
    write_jsonl(Paths.signals(0), [Signal("s", "rare", 0, None, ["pay"], 0.5, {"count": 1, "total": 2}, ["b", "c"])])
    origin = Provenance(0, ["s", "lost"], "e")
    new = Task.create("miniworld", "synthesized", ["pay"], {}, [[ToolCall("pay", {})]], ["pay"], origin)
    write_jsonl(Paths.tasks(1), [new])
    found = weak(summed(params), 1)
    assert [(one.trajectory.trajectory_id, one.tasks) for one in found] == [("b", [new.task_id])]
    found = weak(summed(params), 3)
    assert origins(found) == {"x": "a", "y": "b", new.task_id: "b"}, "a success is no failure that a task grew from"


def test_a_summary_of_another_stage_is_one_line(run: Path, params: Params) -> None:
    file = Paths.summary(1, "train")
    write_json(file, {**read_json(file), "stage": "it's"})
    with pytest.raises(CoevolveError, match=r"data/1/summary/train\.json: stage is \"it's\", expected 'train'"):
        summed(params)


def test_kinds_of_tasks_are_listed_and_decide_the_interval(params: Params, run: Path) -> None:
    """Twelve kinds, of which the last policy wins the first half whole."""
    for t in range(4):
        played = [
            Outcome("validation", str(n), f"kind{n % 12}", 1.0, t == 3 and n % 12 < 6, "done", 4, 40, {})
            for n in range(96)
        ]
        found = metrics(played, params.evaluate, 0)
        write_json(Paths.evaluation(t) / "metrics.json", {panel: asdict(one) for panel, one in found.items()})
    made = summed(params)
    text = table(made)
    assert "± half its 95% interval over 12 kinds of tasks" in text and made.unit == "12 kinds of tasks"
    rows = dict(line.split(maxsplit=1) for line in text.splitlines() if line.strip().startswith("kind1"))
    assert rows == {"kind1": "0.00 → 1.00", "kind10": "0.00 → 0.00", "kind11": "0.00 → 0.00"}
    assert "0.50 ±0.2" in text  # 0.10 over tasks
