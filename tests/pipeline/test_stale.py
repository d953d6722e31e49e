"""Nothing of a finished run passes for up to date when what made it has changed, and nothing else is made again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.pipeline.conftest import Project

PLAYING = {
    "warm",
    "generator",
    "evaluate_base",
    "pairs",
    "train",
    "generate",
    "explore",
    "synthesize",
    "verify",
    "watch",
    "validate",
    "evaluate",
}


@contextmanager
def changed(project: Project, file: str, old: str, new: str) -> Iterator[None]:
    """``file`` with ``new`` for ``old``, for as long as the block runs."""
    path = project.folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        yield
    finally:
        path.write_text(text)


def stale(project: Project) -> set[str]:
    """The stages that `dvc status` names, without their iterations."""
    return {name.split("@")[0] for name in json.loads(project.dvc("status", "--json").stdout)}


def test_another_line_of_success_is_seen_by_all_that_count_successes(project: Project) -> None:
    assert stale(project) == set()
    with changed(project, "src/coevolve/core/success.py", "SUCCESS_THRESHOLD = 0.5", "SUCCESS_THRESHOLD = 0.9"):
        found = stale(project)
    assert found >= {"train", "signals", "explore", "verify", "watch", "evaluate_base", "evaluate", "report"}
    assert not found & {"tasks", "validate"}


def test_another_reward_is_seen_by_all_that_play(project: Project) -> None:
    with changed(project, "src/coevolve/environments/miniworld/session.py", "PARTIAL = 0.49", "PARTIAL = 0.4"):
        # the base policy was made from demonstrations there
        assert stale(project) == {"base", "tasks"}
        project.dvc("repro", "--single-item", "tasks")
        assert stale(project) == {"base", *PLAYING}
        # a stage that is run all the same says that it would play in another world than the tasks are of
    done = project.run("python", "pipelines/evaluate.py", "0", check=False)
    assert done.returncode == 1 and "data/environment.json: sources of the environment" in done.stderr
    project.dvc("repro", "--single-item", "tasks")
    assert stale(project) == set()


def test_another_word_on_the_page_is_of_the_report_alone(project: Project) -> None:
    with changed(project, "src/coevolve/stages/report/page/page.html.j2", "Read trajectories", "Read episodes"):
        assert stale(project) == {"report"}


def test_what_carries_changes_nothing(project: Project) -> None:
    with changed(project, "src/coevolve/core/progress.py", "import sys\n", "import sys  # a comment\n"):
        assert stale(project) == set()
