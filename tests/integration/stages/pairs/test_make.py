"""A rehearsal of the tiny policy, as it would play in training, and the failure agent beside it, also after a kill; and the
pairs that come of it.
"""

import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import read_trajectories
from coevolve.policies import helper_model
from coevolve.policies.loading import playing
from coevolve.policies.policy import Policy, Replicas
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, rollout
from coevolve.stages.pairs.choose import AMONG, EXPERT_HARD, OWN_HARD
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.pairs.failure_agent import Rival, begun
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.pairs.stage import CLOSE, HARD, Made, make, summary
from coevolve.stages.train.learner import Shared
from tests import POLICY
from tests.unit.stages.train.small import ACTING, CONFIG, PARAMS, WORLD, changed, killed, outputs

LIMITS = Limits.of(ACTING)
TASKS = WORLD.tasks("seed")[:16]
FEW = {"episodes": 40, "hard_episodes": 40, "steps": 3, "batch": 4}
SMALL = PARAMS.pairs.failure_agent.model_copy(update={"start": "own", "closeness": 0.4, **FEW})


def ground(folder: Path, tasks: list[Task] = TASKS) -> Rehearsal:
    play = partial(playing, config=ACTING, temperature=CONFIG.temperature)
    return Rehearsal(0, 0, tasks, [], folder, WORLD, LIMITS, play)


def rival(folder: Path, **changes: object) -> Rival:
    helper_model.start(folder / "first", on=POLICY)
    return Rival(folder / "first", POLICY, SMALL, Shared(changed(**changes), ACTING, PARAMS.launch))


def made(folder: Path, other: Rival | None = None, own: Pairs = PARAMS.pairs) -> Made:
    (folder / "scratch").mkdir(exist_ok=True)
    return make(POLICY, ground(folder / "scratch"), CONFIG, own, other)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evolved")


@pytest.fixture(scope="module")
def evolved(place: Path) -> Made:
    return made(place, rival(place))


def test_successes_are_chosen_over_failures_and_everything_is_counted(whole: Made) -> None:
    known = {one.trajectory_id: one for one in [*whole.rehearsals, *whole.references]}
    assert len(whole.rehearsals) == CONFIG.steps * CONFIG.tasks_per_step * CONFIG.group_size
    assert len(whole.references) == len(TASKS)
    for pair in whole.pairs:
        assert is_success(known[pair.chosen].score) and not is_success(known[pair.rejected].score)
    figures = summary(0, whole, "").figures
    assert figures["pairs"] == len(whole.pairs) > 8
    assert sum(value or 0 for name, value in figures.items() if name.startswith("pairs: ")) == len(whole.pairs)
    assert 0.0 < (figures[CLOSE] or 0.0) < 1.0


def test_failure_agent_plays_failed_tasks_and_its_negatives_are_paired(whole: Made, evolved: Made) -> None:
    assert evolved.rehearsals == whole.rehearsals, "the agent in training plays as it does alone"
    found = evolved.evolved
    assert found and not found.reason
    weak = {one.task_id for one in whole.rehearsals if one.trajectory_id in whole.failures}
    for played in (found.before, found.after):
        assert len(played) == 40 and {one.task_id for one in played} == weak
    assert len({one.trajectory_id for one in [*evolved.rehearsals, *found.before, *found.after]}) == 80 + len(
        whole.rehearsals
    )
    ours = {one.trajectory_id for one in (*evolved.rehearsals, *found.before)}
    assert len(found.pairs) >= SMALL.batch and all(one.kind == AMONG for one in found.pairs)
    assert {name for one in found.pairs for name in (one.chosen, one.rejected)} <= ours
    assert [row["step"] for row in found.figures] == [0, 1, 2] and found.figures[-1]["margin"] > 0.0
    theirs = {one.trajectory_id for one in evolved.hard}
    assert theirs and theirs <= {one.trajectory_id for one in found.after}
    paired = {one.rejected for one in evolved.pairs if one.kind in (EXPERT_HARD, OWN_HARD)}
    assert paired and paired <= theirs
    figures = summary(0, evolved, "").figures
    assert figures["hard negatives"] == len(theirs) and (figures[HARD] or 0.0) >= SMALL.closeness


def test_failure_agent_may_start_as_the_agent_in_training(whole: Made, tmp_path: Path) -> None:
    own = rival(tmp_path)
    config, agent = SMALL.model_copy(update={"start": "agent"}), tmp_path / "agent"
    shutil.copytree(POLICY, agent)
    other = begun(own.folder, own.base, agent, config, own.shared, tmp_path / "started")
    assert helper_model.opened(other.folder, tmp_path / "merged", "float32") == agent == other.base
    assert begun(own.folder, own.base, agent, SMALL, own.shared, tmp_path / "started") == own
    found = made(tmp_path, other).evolved
    assert found and not found.reason and not found.before and len(found.after) == 40
    failed = {name for one in found.pairs for name in (one.chosen, one.rejected)}
    assert failed and failed <= set(whole.failures)
    assert outputs(found.folder)["model/model.safetensors"] != (agent / "model.safetensors").read_bytes()


def test_failure_agent_continues_from_its_last_weights(evolved: Made, place: Path) -> None:
    found = evolved.evolved
    assert found
    helper_model.write(place / "second", found.folder)
    assert helper_model.opened(place / "second", place / "merged", "float32") == place / "second/model"
    first = (POLICY / "model.safetensors").read_bytes()
    assert (place / "second/model/model.safetensors").read_bytes() != first
    assert helper_model.opened(place / "first", place / "merged", "float32") == POLICY


@pytest.mark.parametrize("phase", ["agent", "hard"])
def test_killed_failure_agent_ends_with_the_same_bytes(
    phase: str, evolved: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"agent": "coevolve.stages.train.dpo.save_learned", "hard": "coevolve.stages.pairs.stage.choose"}

    with monkeypatch.context() as patch:
        patch.setattr(broken[phase], killed)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, rival(tmp_path))
    again = made(tmp_path, rival(tmp_path))
    assert again.pairs == evolved.pairs and again.hard == evolved.hard
    assert again.evolved and evolved.evolved and again.evolved.figures == evolved.evolved.figures
    assert outputs(again.evolved.folder) == outputs(evolved.evolved.folder)


def test_adapters_are_stored_separately_on_the_previous_ones(tmp_path: Path) -> None:
    other = rival(tmp_path, lora={"enabled": True})
    found = made(tmp_path, other).evolved
    assert found
    helper_model.write(tmp_path / "second", found.folder)
    names = {"agent.json", "adapter-0/adapter_config.json", "adapter-0/adapter_model.safetensors"}
    assert set(outputs(tmp_path / "second")) == names
    assert str(tmp_path).encode() not in outputs(tmp_path / "second")["adapter-0/adapter_config.json"]
    layers = read_json(tmp_path / "second/adapter-0/adapter_config.json")["target_modules"]
    assert layers == sorted(layers), "peft's own order differs by process"
    (tmp_path / "third").mkdir()
    next_one = made(tmp_path / "third", replace(other, folder=tmp_path / "second")).evolved
    assert next_one
    helper_model.write(tmp_path / "last", next_one.folder)
    assert set(outputs(tmp_path / "last")) == names | {name.replace("-0/", "-1/") for name in names - {"agent.json"}}
    weights = [
        (helper_model.opened(tmp_path / name, tmp_path / "merged", "float32") / "model.safetensors").read_bytes()
        for name in ("first", "second", "last")
    ]
    assert len(set(weights)) == 3


def test_failure_agent_that_cannot_learn_gives_a_reason_and_stays(tmp_path: Path) -> None:
    one = rival(tmp_path)
    found = made(tmp_path, replace(one, config=SMALL.model_copy(update={"batch": 400})))
    assert found.evolved and not found.hard and found.pairs
    assert "a step takes 400 pairs (pairs.failure_agent.batch)" in found.evolved.reason
    assert any(found.evolved.reason in note for note in summary(0, found, "").notes)
    assert found.evolved.folder == one.folder


def test_failure_agent_that_rarely_fails_is_not_trained(tmp_path: Path) -> None:
    able = tmp_path / "able"

    def play(path: Path) -> AbstractContextManager[Policy | Replicas]:
        return nullcontext(ReferencePolicy(WORLD)) if path == able else ground(tmp_path).open(path)

    one = rival(tmp_path)
    helper_model.start(one.folder, on=able)
    on = replace(ground(tmp_path), open=play)
    found = make(POLICY, on, CONFIG, PARAMS.pairs, one)
    assert found.evolved and found.evolved.reason == "only 0.0% of its episodes fail; it needs at least 5%"
    assert found.evolved.folder == one.folder and not found.evolved.after and found.pairs


def test_killed_rehearsal_plays_only_the_missing_episodes(
    whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, context, steps = POLICY, ground(tmp_path), [rollout, killed]
    with monkeypatch.context() as patch:
        patch.setattr("coevolve.stages.pairs.rehearse.rollout", lambda *args, **given: steps.pop(0)(*args, **given))
        with pytest.raises(KeyboardInterrupt):
            context.rehearse(base, CONFIG)
    assert [file.name for file in tmp_path.iterdir()] == ["0.parquet"]
    first = read_trajectories(tmp_path / "0.parquet")
    assert context.rehearse(base, CONFIG) == whole.rehearsals
    assert list(whole.rehearsals[: len(first)]) == first


def test_missing_references_are_a_one_line_error(tmp_path: Path) -> None:
    bare = [replace(task, reference=[[]]) for task in TASKS]
    with pytest.raises(CoevolveError, match="needs references that solve their tasks in a replay"):
        make(POLICY, ground(tmp_path, bare), CONFIG, PARAMS.pairs)
