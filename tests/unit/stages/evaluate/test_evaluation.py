from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import interrupted
from coevolve.core.outcomes import metrics, paired_interval, solved
from coevolve.core.statistics import bootstrap
from coevolve.core.trajectories import End
from coevolve.environments.registry import make
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.evaluate.evaluation import episodes_in, evaluate, played, summary
from coevolve_environments.miniworld.session import MiniworldSession
from tests.unit.test_rollout import Around

CONFIG = Evaluate(panels=None, tasks=20, samples=1, temperature=0.0, bootstrap=500, confidence=0.95)


def test_each_panel_is_played_and_summarized() -> None:
    world = make("miniworld")
    panels = {name: world.tasks(name) for name in world.panels}
    outcomes = evaluate(ReferencePolicy(world, 0.2), world, panels, Limits(16, 512, 64, 30.0), CONFIG, 0)
    found = metrics(outcomes, CONFIG, 0)
    assert list(found) == list(world.panels)
    for name, one in found.items():
        ours = [outcome.success for outcome in outcomes if outcome.panel == name]
        assert one.tasks == len(ours) == 20
        assert one.success == pytest.approx(np.mean(ours))
        assert one.low <= one.success <= one.high
        assert sum(one.stop_reasons.values()) == 20
    assert outcomes == evaluate(ReferencePolicy(world, 0.2), world, panels, Limits(16, 512, 64, 30.0), CONFIG, 0)


def test_several_episodes_of_a_task_count_as_one_task() -> None:
    world = make("miniworld")
    several = CONFIG.model_copy(update={"samples": 4, "temperature": 1.0})
    panels, limits = {"test": world.tasks("test")}, Limits(16, 512, 64, 30.0)
    outcomes = evaluate(ReferencePolicy(world, 0.5), world, panels, limits, several, 0)
    one = metrics(outcomes, several, 0)["test"]
    assert (one.tasks, one.episodes) == (20, 80)
    rates = solved(outcomes, "test")
    assert set(rates.values()) - {0.0, 1.0}, "some tasks are solved sometimes"
    assert (
        one.success
        == pytest.approx(np.mean(list(rates.values())))
        == pytest.approx(sum(x.success for x in outcomes) / 80)
    )
    assert list(one.several) == ["pass@2", "pass@4", "pass^2", "pass^4"]
    assert one.several["pass@4"] == pytest.approx(np.mean([rate > 0 for rate in rates.values()]))
    assert one.several["pass^4"] == pytest.approx(np.mean([rate == 1 for rate in rates.values()]))
    assert one.several["pass^4"] < one.several["pass^2"] < one.success < one.several["pass@2"] < one.several["pass@4"]
    assert summary(0, {"test": one}).figures["evaluation episodes"] == 80
    first = evaluate(ReferencePolicy(world, 0.5), world, panels, limits, several.model_copy(update={"samples": 1}), 0)
    assert first == outcomes[::4], "the first sample is that of a single evaluation"


def test_kept_episodes_are_saved_whole_and_not_played_again(tmp_path: Path) -> None:
    world = make("miniworld")
    tasks = world.tasks("test")[:6]
    chosen = [task.task_id for task in tasks[:2]]

    def outcomes(player: ReferencePolicy) -> Sequence[object]:
        return evaluate(player, world, {"test": tasks}, Limits(16, 512, 64, 30.0), CONFIG, 0, tmp_path, None, chosen)

    first = outcomes(ReferencePolicy(world))
    episodes = episodes_in(tmp_path)
    assert sorted(episode.task_id for episode in episodes) == sorted(chosen)
    assert all(episode.messages and episode.score == 1.0 for episode in episodes)
    assert outcomes(ReferencePolicy(world, 1.0)) == first and episodes_in(tmp_path) == episodes


def test_chosen_panels_are_played_in_the_environments_order() -> None:
    panels = make("miniworld").panels
    assert played(CONFIG, panels, "miniworld") == list(panels)
    some = CONFIG.model_copy(update={"panels": ["hard", "validation"]})
    assert played(some, panels, "miniworld") == ["validation", "hard"]
    with pytest.raises(
        CoevolveError, match=r"evaluate.panels: miniworld has no tset; expected some of: validation, test"
    ):
        played(CONFIG.model_copy(update={"panels": ["tset"]}), panels, "miniworld")


def test_blameless_failures_are_left_out_and_reported() -> None:
    opened = count()

    def session() -> MiniworldSession:
        if next(opened) % 5 == 0:
            raise OSError("no session")
        return MiniworldSession()

    world = Around(session)
    panels = {"test": world.tasks("test")}
    ends: list[End] = []
    outcomes = evaluate(ReferencePolicy(world), world, panels, Limits(16, 512, 64, 30.0), CONFIG, 0, ends=ends)
    found = metrics(outcomes, CONFIG, 0)
    assert found["test"].tasks == 16 and found["test"].success == 1.0
    assert interrupted(ends) == ["4 of 20 episodes count nowhere: no session started: OSError: no session"]


def test_panel_whose_environment_always_fails_is_an_error_and_replayed(tmp_path: Path) -> None:
    def session() -> MiniworldSession:
        if broken:
            raise OSError("no session")
        return MiniworldSession()

    broken, world = True, Around(session)
    panels = {"test": world.tasks("test")[:4]}
    limits = Limits(16, 512, 64, 30.0)
    (tmp_path / "test-hard-0.jsonl").write_text("")  # another panel's
    with pytest.raises(CoevolveError, match="4 of 4 episodes count nowhere: no session started: OSError"):
        evaluate(ReferencePolicy(world), world, panels, limits, CONFIG, 0, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["test-hard-0.jsonl"]
    broken = False
    assert len(evaluate(ReferencePolicy(world), world, panels, limits, CONFIG, 0, tmp_path)) == 4


def test_intervals_are_as_wide_as_theory_predicts() -> None:
    values = [1.0] * 128 + [0.0] * 128
    low, high = bootstrap(values, CONFIG.model_copy(update={"bootstrap": 4000}), 0)
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.25 / 256), rel=0.1)


def test_pairing_removes_the_variance_of_task_difficulty() -> None:
    base = {str(n): float(n % 2) for n in range(200)}
    better = {**base, **{str(n): 1.0 for n in range(0, 30, 2)}}
    gain, low, high = paired_interval(base, better, CONFIG, 0)
    assert gain == pytest.approx(0.075)
    assert 0 < low < gain < high
    unpaired = [bootstrap(list(scores.values()), CONFIG, 0) for scores in (base, better)]
    assert unpaired[0][1] > unpaired[1][0]


class Interrupted(ReferencePolicy):
    """Raises KeyboardInterrupt at the start of its third batch."""

    begun = 0

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self.begun += 1
        if self.begun == 3:
            raise KeyboardInterrupt
        super().begin(conversations)


def test_episodes_before_an_interrupt_are_not_played_again(tmp_path: Path) -> None:
    world = make("miniworld")
    panels = {name: world.tasks(name)[:10] for name in ("validation", "test")}
    limits = Limits(16, 512, 64, 30.0, batch=4)
    whole = evaluate(ReferencePolicy(world, 0.2), world, panels, limits, CONFIG, 0)
    policy = Interrupted(world, 0.2)
    with pytest.raises(KeyboardInterrupt):
        evaluate(policy, world, panels, limits, CONFIG, 0, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["validation-0.jsonl", "validation-1.jsonl"]
    (tmp_path / "validation-0.jsonl").unlink()  # of two processes, the second may have been the faster
    policy = Interrupted(world, 0.2)
    policy.begun = 3
    assert evaluate(policy, world, panels, limits, CONFIG, 0, tmp_path) == whole
    assert policy.begun == 3 + 5  # of six batches
