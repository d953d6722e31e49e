"""An iteration of a small real generator: its specs, its training and its output, even after a kill."""

from collections import Counter
from dataclasses import replace
from functools import partial
from math import log
from pathlib import Path

import pytest

from coevolve.core.attempts import attempt_of
from coevolve.core.learnability import Record
from coevolve.core.records import Generation
from coevolve.policies import helper_model
from coevolve.policies.loading import playing
from coevolve.rollout import Limits
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.iteration import Generated, Plan, generate
from coevolve.stages.generate.rewards import ACCEPTED
from coevolve.stages.generate.spec import Spec, SpecRequest, named, seldom
from coevolve.stages.generate.stage import summary
from tests.unit.stages.generate.small import OWN, TASKS, TOOLS, shared
from tests.unit.stages.train.small import ACTING, WORLD, killed, outputs

ATTEMPTS = [attempt_of(task.task_id, 1, n, [1.0] * (n % 5) + [0.0] * (4 - n % 5)) for n, task in enumerate(TASKS)]


def past(count: int = 24) -> list[Generation]:
    """Generations of iteration 0, some of them accepted and played."""
    found = []
    for number in range(count):
        spec = Spec((TOOLS.goals[number], TOOLS.goals[number + 1]))
        one = Generation(
            f"g{number}", 0, TASKS[number % 16].task_id, f"vary {spec}", str(spec), list(spec.goals), None
        )  # fmt: skip
        made = number % 3 > 0
        outcome, task = (ACCEPTED, f"task {number}") if made else ("unrealized", None)
        found.append(
            replace(one, outcome=outcome, task_id=task, successes=number % 9 if made else 0, episodes=8 if made else 0)
        )
    return found


def folder_of(place: Path, first: Path) -> Path:
    helper_model.start(place / "generators/0")
    helper_model.write(place / "generators/0", place / "generators/0", first)
    return place / "generators/0"


def made(
    place: Path, first: Path, own: Generate = OWN, t: int = 1, generations: list[Generation] | None = None
) -> Generated:
    folder = folder_of(place, first)
    (place / "scratch").mkdir(exist_ok=True)
    play = partial(playing, config=ACTING, temperature=own.temperature)
    earlier = past() if generations is None else generations
    plan = Plan(
        0,
        t,
        TASKS,
        ATTEMPTS,
        earlier,
        24,
        folder,
        folder,
        place / "scratch",
        WORLD,
        Limits.of(ACTING),
        play,
        shared(own),
    )
    return generate(plan, own)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="module")
def whole(place: Path, first: Path) -> Generated:
    return made(place, first)


def test_it_learns_from_accepted_generations(whole: Generated, place: Path, first: Path) -> None:
    able = {one.generation_id for one in past() if one.task_id}
    assert set(whole.weights) == able and len(able) > 8
    assert [one["step"] for one in whole.figures] == list(range(OWN.steps)) and not whole.reason
    assert whole.learned and (whole.learned / "model.safetensors").exists()
    assert (whole.learned / "model.safetensors").read_bytes() != (first / "model.safetensors").read_bytes()


def test_generator_varies_tasks_and_states_the_agents_results(whole: Generated) -> None:
    assert len(whole.new) == 24
    assert len({one.generation_id for one in whole.new}) == len(whole.new)
    for start in range(0, 24, OWN.variations):
        some = whole.new[start : start + OWN.variations]
        assert len({one.seed for one in some}) == len({one.prompt for one in some}) == 1
    tasks = {task.task_id: task for task in TASKS}
    visits = {one.task_id: one for one in ATTEMPTS}
    solved = sum(one.successes for one in ATTEMPTS) / sum(one.size for one in ATTEMPTS)
    for one in whole.new:
        spec = named(tasks[one.seed].tools, TOOLS)
        assert spec
        record = Record(visits[one.seed].successes, visits[one.seed].size)
        assert one.prompt == str(SpecRequest(spec, record, solved, seldom(TASKS, TOOLS)))
        assert one.iteration == 1 and (one.goals is None) == bool(one.outcome)


def test_a_frozen_or_first_generator_learns_nothing(tmp_path: Path, first: Path) -> None:
    frozen = made(tmp_path, first, OWN.model_copy(update={"frozen": True}))
    assert frozen.learned is None and not frozen.weights and not frozen.reason and len(frozen.new) == 24
    new = made(tmp_path, first, t=0, generations=[])
    assert new.learned is None and len(new.new) == 24
    assert not summary(0, new, "").notes


def test_too_few_weighted_generations_are_reported(tmp_path: Path, first: Path) -> None:
    few = made(tmp_path, first, generations=past(6))
    assert few.learned is None and few.reason == "only 4 generations have a weight above 0; the generator needs 8"
    assert any(few.reason in note for note in summary(1, few, "").notes)
    none = made(tmp_path, first, OWN.model_copy(update={"band": 1e-6, "alpha": 0.33}))
    assert none.reason.startswith("only 0 generations")


def test_generator_whose_first_step_exceeds_max_kl_stays_unchanged(tmp_path: Path, first: Path) -> None:
    for _ in range(2):  # the second run finds a finished update
        held = made(tmp_path, first, OWN.model_copy(update={"max_kl": 1e-9}))
        assert held.learned is None and not held.figures and held.weights
        assert held.reason == "its first step exceeds generate.max_kl"
        found = summary(1, held, "")
        assert (found.figures["divergence of specs"], found.figures["generator steps"]) == (None, 0)
        assert any(held.reason in note for note in found.notes)


def test_figures_describe_the_written_generations(whole: Generated) -> None:
    figures = summary(1, whole, "").figures
    assert figures["generations"] == 24 and figures["specs that can be taken"] == sum(
        one.goals is not None for one in whole.new
    ) / len(whole.new)
    goals = Counter(goal for one in whole.new for goal in one.goals or ())
    shares = [count / goals.total() for count in goals.values()]
    assert figures["entropy of goals"] == pytest.approx(
        -sum(share * log(share) for share in shares) / log(len(TOOLS.goals))
    )
    assert figures["generator steps"] == OWN.steps
    assert 0.0 < (figures["effective sample of the generator"] or 0.0) <= 1.0


def test_killed_iteration_resumes_to_the_same_result(
    whole: Generated, tmp_path: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("coevolve.stages.generate.iteration.write", killed)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, first)
    again = made(tmp_path, first)
    assert (again.new, again.weights, again.figures) == (whole.new, whole.weights, whole.figures)
    assert again.learned and whole.learned and outputs(again.learned) == outputs(whole.learned)


def test_adapters_are_stacked_on_the_previous_generator(tmp_path: Path, first: Path) -> None:
    folder = folder_of(tmp_path, first)
    settings = shared()
    lora = settings.train.lora.model_copy(update={"enabled": True})
    adapting = replace(settings, train=settings.train.model_copy(update={"lora": lora}))
    play = partial(playing, config=ACTING, temperature=1.0)
    before = folder
    for t in (1, 2):
        place = tmp_path / str(t)
        place.mkdir()
        plan = Plan(0, t, TASKS, ATTEMPTS, past(), 8, before, folder, place, WORLD, Limits.of(ACTING), play, adapting)
        found = generate(plan, OWN)
        assert found.learned
        before = tmp_path / f"generators/{t}"
        helper_model.write(before, folder if t == 1 else tmp_path / "generators/1", found.learned)
    names = {str(one.parent) for one in map(Path, outputs(before))}
    assert names == {".", "model", "adapter-0", "adapter-1"}
