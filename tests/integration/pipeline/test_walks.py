"""`coevolve lineage` and `coevolve compare` on a real run."""

from mlflow import MlflowClient

from coevolve.core.io import read_jsonl
from coevolve.core.records import Signal
from coevolve.core.task import Task
from coevolve.tracking.record import POLICY
from tests.project import Project


def test_task_is_traced_to_the_step_that_showed_the_weakness(project: Project) -> None:
    tasks = read_jsonl(project.folder / "data/1/tasks.jsonl", Task)
    made = next(task for task in tasks if task.provenance and task.provenance.signal_ids)
    origin = made.provenance
    assert origin
    said = project.run("coevolve", "lineage", made.task_id[:10]).stdout
    for part in (made.task_id, "verdict", origin.exploration_id, *origin.signal_ids, "from policies/0"):
        assert part in said, said
    signals = {one.signal_id: one for one in read_jsonl(project.folder / "data/0/signals.jsonl", Signal)}
    assert any(name in said for name in signals[origin.signal_ids[0]].trajectory_ids)
    seed = next(task for task in tasks if task.provenance is None)
    assert "not a synthesized task" in project.run("coevolve", "lineage", seed.task_id).stdout


def test_lineage_without_a_name_lists_tasks(project: Project) -> None:
    *tasks, last = project.run("coevolve", "lineage").stdout.splitlines()
    assert last.startswith(f"{len(tasks)} newest tasks") and tasks
    task_id, _, words = tasks[0].partition("  ")
    assert words and task_id in project.run("coevolve", "lineage", task_id).stdout


def test_policy_is_traced_to_its_data(project: Project) -> None:
    said = project.run("coevolve", "lineage", "policies/1").stdout
    assert (
        "trained in iteration 0 on data/0/tasks.jsonl" in said and "8 seed tasks" in said and "from policies/0" in said
    )


def test_missing_name_is_a_one_line_error(project: Project) -> None:
    for arguments, words in (
        (("lineage", "ffffffffffffffff"), "no such task in data/*/tasks.jsonl"),
        (("lineage", "policies/9"), "policies/9: no such policy here"),
        (("compare", "0", "9"), "9: there is no policies/9; expected 0 to "),
        (("compare", "0", "nowhere"), "nowhere: no such policy, experiment or revision"),
        (("compare", "0", "v99"), "v99:"),
    ):
        done = project.run("coevolve", *arguments, check=False)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1 and words in done.stderr


def test_policies_of_runs_experiments_and_the_registry_are_compared(project: Project) -> None:
    here = project.run("coevolve", "compare", "0", "1", "--html", "report/compare.html").stdout
    assert "workspace:1 against workspace:0" in here and "gradient steps" in here
    page = (project.folder / "report/compare.html").read_text()
    assert "workspace:1 against workspace:0" in page and "http" not in page.replace("http://www.w3.org", "")
    (project.folder / "report/compare.html").unlink()
    registry = project.run("coevolve", "compare", "v1", "v2").stdout
    assert "against" in registry
    client = MlflowClient(f"sqlite:///{project.folder}/mlruns/mlflow.db")
    version = client.get_model_version(POLICY, "2")
    t, digest = version.tags["coevolve.iteration"], version.tags["dvc.hash"]
    client.set_model_version_tag(POLICY, "2", "dvc.hash", "0123")  # as of a run that another one has replaced
    replaced = project.run("coevolve", "compare", "v1", "v2", check=False).stderr
    assert f"v2 was policies/{t} of an earlier run in workspace, which is no longer here" in replaced
    client.set_model_version_tag(POLICY, "2", "dvc.hash", digest)
    head = project.run("coevolve", "compare", "0", "workspace:1").stdout
    assert "validation" in head
