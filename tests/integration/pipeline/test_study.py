"""`coevolve study` in a clone: arms run from DVC's queue; a second call runs nothing."""

import csv
from pathlib import Path

from tests.project import clone

STUDY = """\
question: Does it run?
seeds: [0]
panel: validation
against: [static]
subsets: {mail: [find_mail]}
common: {tasks.split: broad, evaluate.panels: [validation], train.steps: 1}
arms:
  static: {explore.explorations: 0, synthesize.count: 0}
  signals:
    explore.explorations: 20
    signals.kinds: [forgetting, boundary, rare, unsolved]
    train.curriculum: learnable
    train.keep_base: 0.1
    train.anchor: base
    verify.select: {shape: bell, keep: 3, variety: 0.5}
"""


def test_arms_run_from_the_queue(tmp_path: Path, cache: Path) -> None:
    project = clone(tmp_path, cache)
    folder = tmp_path / "studies/small"
    folder.mkdir()
    (folder / "study.yaml").write_text(STUDY)
    project.run("git", "add", "-A")
    project.run("git", "commit", "-q", "-m", "study")
    study = ["coevolve", "study", "studies/small"]
    wrong = project.run(*study, "--arms", "statics", check=False)
    assert "--arms: no arm statics; expected some of: static, signals" in wrong.stderr
    wrong = project.run(*study, "--seeds", "3", check=False)
    assert "--seeds: no seed 3; expected some of: 0" in wrong.stderr
    first = project.run(*study, "--arms", "static")
    assert "1 of 2 runs" in first.stdout, "the other was not asked for, so the command succeeds"
    done = project.run(*study)
    assert "2 of 2 runs" in done.stdout
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert {(row["arm"], row["panel"]) for row in rows} >= {("static", "mail"), ("signals", "other tasks")}
    assert {row["code"] for row in rows} == {project.run("git", "rev-parse", "HEAD").stdout.strip()}
    assert {row["accepted"] for row in rows if row["arm"] == "static"} == {"0"}
    assert {row["accepted"] for row in rows if row["arm"] == "signals"} <= {"1", "2", "3"}, "as many as are selected"
    assert "signals" in (folder / "table.md").read_text()
    assert (folder / "curves.svg").exists()
    names = project.dvc("exp", "list", "--name-only").stdout.split()
    assert sorted(names) == ["small-signals-0", "small-static-0"]
    written = {file.name: file.read_bytes() for file in folder.iterdir()}
    again = project.run(*study)
    assert "2 of 2 runs" in again.stdout
    shown = project.run("coevolve", "compare", "small-static-0", "small-signals-0")
    assert "explore.explorations" in shown.stdout
    project.dvc("exp", "remove", *names)  # as on another machine, which has the files alone
    elsewhere = project.run(*study)
    assert "2 of 2 runs" in elsewhere.stdout
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == written
    project.set(train__keep_base=0.3)  # a default that both arms rest on: signals says its own
    other = project.run(*study, "--report")
    assert (
        "1 of 2 runs" in other.stdout
        and "1 results are not of the study as it is now: static 0 ran with train.keep_base" in other.stderr
    )
    assert (folder / "results.jsonl").read_bytes() == written["results.jsonl"], "they may be its arm's again"
    project.run("git", "checkout", "params.yaml")
    changed = STUDY.replace("explore.explorations: 20", "explore.explorations: 21")
    (folder / "study.yaml").write_text(changed)
    assert "1 of 2 runs" in project.run(*study, "--report").stdout, "another arm has other results"
