"""Learners by name: built-in ones, and one from another package, which is one file and one entry point."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects
from coevolve.core.trajectories import read_trajectories
from coevolve.stages.code.digest import digest
from coevolve.stages.schema import Params, parse, plain, sections, value
from coevolve.stages.train.config import config_of
from coevolve.stages.train.learner import Settings
from coevolve.stages.train.learners import LEARNERS
from coevolve.stages.train.stage import summary
from tests.unit.stages.train.small import ACTING, CONFIG, PARAMS, WORLD, job, outputs

MODULE = '''
import shutil
from typing import ClassVar

from coevolve.core.io import write_jsonl
from coevolve.core.section import LearnerConfig, Positive
from coevolve.core.trajectories import write_trajectories
from coevolve.stages.train.reference_tokens import Tokens


class Copy(LearnerConfig):
    by_pairs: ClassVar[bool] = True
    scale: Positive = 0.5
    """Scale of nothing."""


def learn(settings, environment, job, log=None):
    shutil.copytree(job.parent, job.policy)
    write_trajectories(job.trajectories, [])
    row = dict.fromkeys(["step", "groups", "groups_without_variance", "tokens", "success"], 0)
    row["loss"] = settings.learner.scale
    write_jsonl(job.metrics, [row])
    if log:
        log(0, row)
'''

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of one module, as pip would. Its entry point is the learner ``mine``."""

    def installed(module: str = MODULE, place: str = "theirs", name: str = "mine") -> None:
        (tmp_path / "site/theirs.py").write_text(module)
        (about / "entry_points.txt").write_text(f"[coevolve.learners]\n{name} = {place}\n")

    about = tmp_path / "site/theirs-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 0.1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    return installed


def made(**values: Any) -> Params:
    return parse({"iterations": [{"t": 0, "next": 1}], **values}, "params.yaml")


def test_built_in_learners_are_listed_with_their_sections() -> None:
    assert LEARNERS.names() == ["grpo", "dpo", "sft", "import"]
    assert [config_of(name).by_pairs for name in LEARNERS.names()] == [False, True, True, False]
    assert set(LEARNERS.names()) <= set(sections())


def test_learner_of_another_package_is_chosen_configured_and_run(install: Install, tmp_path: Path) -> None:
    install()
    params = made(train={"learner": "mine"}, mine={"scale": 0.25})
    assert plain(params)["mine"] == value(params, "learner") == {"scale": 0.25}
    assert plain(made())["mine"] == {"scale": 0.5}, "its keys have defaults, as ours have"
    assert made(method="coevolving_agents", train={"learner": "mine"}).learner.by_pairs

    logged: list[tuple[int, dict[str, float]]] = []
    settings, run = Settings(CONFIG, ACTING, PARAMS.launch, params.learner), job(tmp_path / "run")
    LEARNERS.find(params.train.learner, "learn")(settings, WORLD, run, lambda *step: logged.append(step))
    assert outputs(run.policy) == outputs(run.parent)
    assert read_trajectories(run.trajectories) == []
    ((_, row),) = read_jsonl_objects(run.metrics)
    assert row["loss"] == 0.25 and logged == [(0, row)]
    assert summary(0, [row], CONFIG.group_size).figures["gradient steps"] == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mine": {"scale": 0.0}}, "mine.scale: Input should be greater than 0, found 0.0; change it"),
        (
            {"train": {"learner": "mien"}},
            "train.learner: expected one of: grpo, dpo, sft, import, mine (did you mean 'mine'?), found 'mien'; change it",
        ),
    ],
)
def test_mistake_in_its_section_is_a_one_line_error(install: Install, values: dict[str, Any], said: str) -> None:
    install()
    with pytest.raises(CoevolveError) as caught:
        made(**values)
    assert str(caught.value).startswith(f"params.yaml: {said}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "place", "said"),
    [
        (
            MODULE.replace("(LearnerConfig)", ""),
            "theirs",
            "learner mine: theirs has no class that inherits LearnerConfig",
        ),
        (MODULE.replace("def learn", "def teach"), "theirs", "learner mine: theirs has no learn"),
    ],
)
def test_invalid_learner_module_is_a_one_line_error(install: Install, module: str, place: str, said: str) -> None:
    install(module, place)
    with pytest.raises(CoevolveError) as caught:
        LEARNERS.find(made(train={"learner": "mine"}).train.learner, "learn")
    assert str(caught.value).removeprefix("params.yaml: ").startswith(said) and "\n" not in str(caught.value)


def test_learners_code_and_its_imports_decide_whether_training_reruns(install: Install) -> None:
    install()
    found = {name: digest("train", made(train={"learner": name}))["code"] for name in LEARNERS.names()}
    pairs = digest("pairs", made(train={"learner": "mine"}))
    assert "theirs.py" not in pairs["code"] and pairs["params"]["by_pairs"] is True, "pairs depend on that alone"
    assert {"theirs.py", "coevolve/stages/train/reference_tokens.py"} <= set(found["mine"])
    assert not set(found["mine"]) & {"coevolve/stages/train/grpo.py", "coevolve/stages/train/dpo.py"}
    assert not any("theirs.py" in found[name] for name in LEARNERS.built_in)
    install(MODULE.replace("copytree", "move"))
    assert digest("train", made(train={"learner": "mine"}))["code"]["theirs.py"] != found["mine"]["theirs.py"]


def test_learner_named_like_a_section_of_the_loop_is_refused(install: Install) -> None:
    install(name="verify")
    with pytest.raises(CoevolveError, match=r"learner verify: params\.yaml has a section of that name already"):
        parse({}, "here")
