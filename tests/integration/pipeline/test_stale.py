"""A finished run is stale exactly in the stages whose code or parameters have changed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.project import Project
from tests.smoke.test_repro import LOOP, ran

PLAYING = {"warm", "generator", "replay", "evaluate_base", *LOOP} - {"signals"}
GRPO = "src/coevolve/stages/train/grpo.py"
DPO = "src/coevolve/stages/train/dpo.py"
SIGNALS = "src/coevolve/stages/signals/config.py"
TRAIN = "src/coevolve/stages/train/config.py"


@contextmanager
def changed(project: Project, file: str, old: str, new: str) -> Iterator[None]:
    """Replace ``old`` by ``new`` in ``file`` while the block runs."""
    path = project.folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        yield
    finally:
        path.write_text(text)


def status(project: Project) -> set[str]:
    """The stages that `dvc status` names, without their iterations."""
    return {name.split("@")[0] for name in json.loads(project.dvc("status", "--json").stdout)}


def stale(project: Project) -> set[str]:
    """The stages that `dvc status` names once stage `code` has run."""
    project.dvc("repro", "code")
    return status(project)


@pytest.fixture(scope="module", autouse=True)
def _restored(project: Project) -> Iterator[None]:
    """Restore the digests of the unchanged code for the tests of other files."""
    assert stale(project) == set()
    yield
    assert stale(project) == set()


def test_comment_reruns_only_stage_code(project: Project) -> None:
    with changed(project, "src/coevolve/core/io.py", "import os\n", "import os  # a comment\n"):
        assert status(project) == {"code"}
        assert ran(project.dvc("repro").stdout) == ["code"]
        assert status(project) == set()


UNIMPORTANT = [
    ("src/coevolve/stages/explore/endpoint_explorer.py", "\n\n", "\nX = 1\n\n"),  # not the explorer of params.yaml
    ("src/coevolve_environments/sql/databases.py", "\n\n", "\nX = 1\n\n"),  # an adapter that the run does not use
    ("src/coevolve/core/progress.py", "import sys\n", "import sys\n\nX = 1\n"),
    (SIGNALS, "= 5", "= 6"),  # a default that params.yaml overrides
    (TRAIN, '"""Steps between', '"""The steps between'),
    ("params.yaml", "wandb: disabled", "wandb: offline"),
    ("params.yaml", "seed: 0", "seed:     0"),
]


def test_changes_that_shape_no_file_make_nothing_stale(project: Project) -> None:
    with ExitStack() as stack:
        for change in UNIMPORTANT:
            stack.enter_context(changed(project, *change))
        assert stale(project) == set()


Change = tuple[str, str, str]  # a file, what it holds, and what stands there instead
AFFECTED: dict[str, tuple[list[Change], set[str]]] = {
    "the loss of the learner": ([(GRPO, "return episode_reward", "return 2 * episode_reward")], {"train"}),
    "the loss of another learner": ([(DPO, "1.0, config.sft_weight", "2.0, config.sft_weight")], {"pairs"}),
    "the explorer, a word on the page and a parameter of signals": (
        [
            ("src/coevolve/stages/explore/scripted_explorer.py", "\n\n", "\nX = 1\n\n"),
            ("src/coevolve/stages/report/page/page.html.j2", "Read trajectories", "Read episodes"),
            ("params.yaml", "window: 5", "window: 3"),
        ],
        {"explore", "report", "signals"},
    ),
    "a default": ([(TRAIN, "micro_batch: Whole = 0", "micro_batch: Whole = 2")], {"train", "pairs", "generate"}),
}


@pytest.mark.parametrize("what", AFFECTED)
def test_change_makes_only_the_affected_stages_stale(project: Project, what: str) -> None:
    changes, found = AFFECTED[what]
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(changed(project, *change))
        assert stale(project) == found


def test_success_threshold_affects_all_stages_that_count_successes(project: Project) -> None:
    with changed(project, "src/coevolve/core/success.py", "SUCCESS_THRESHOLD = 0.5", "SUCCESS_THRESHOLD = 0.9"):
        found = stale(project)
    # validate judges new words by the gates of verify
    assert found >= {"evaluate_base", "report", *LOOP} - {"pairs", "generate", "synthesize"}
    assert "tasks" in found  # miniworld keeps the tasks whose expert succeeds


def test_changed_reward_affects_all_stages_that_play(project: Project) -> None:
    with changed(project, "src/coevolve_environments/miniworld/session.py", "PARTIAL = 0.49", "PARTIAL = 0.4"):
        assert stale(project) == {"tasks"}
        project.dvc("repro", "--single-item", "tasks")
        assert stale(project) == PLAYING
    stale(project)
    project.dvc("repro", "--single-item", "tasks")
    assert stale(project) == set()


def test_other_bytes_of_the_shipped_policy_are_copied_again(project: Project) -> None:
    file = "src/coevolve_environments/miniworld/policy/generation_config.json"
    with changed(project, file, "{", "{ "):
        assert stale(project) == {"base"}
        assert ran(project.dvc("repro", "base").stdout) == ["base"]
        assert status(project) == {"warm"}
    assert ran(project.dvc("repro", "base").stdout) == []  # DVC's cache of runs holds the stages with the old bytes
    assert (project.folder / "policies/base/generation_config.json").read_bytes() == (
        project.folder / file
    ).read_bytes()
