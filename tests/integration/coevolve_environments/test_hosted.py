"""Environments in virtual environments of their own, where they are installed: `make test-all` installs them."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests.contract import violations
from tests.hosted import HOSTED, installed
from tests.waiting import PATIENCE

LIMITS = Limits(60, 10**6, 64, PATIENCE)


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not installed(name), reason=f"{name} is not installed; run `coevolve env install {name}`")


def test_requirements_are_pinned() -> None:
    for name in HOSTED:
        lines = HOSTED[name].requirements.read_text().splitlines()
        assert all("==" in line for line in lines), name
        assert not any(line.startswith("coevolve") for line in lines), f"{name}: workers find us by their path"


def test_missing_installation_error_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path))
    for name in (name for name, one in HOSTED.items() if not one.beside):
        with pytest.raises(CoevolveError, match=f"coevolve env install {name}"):
            make(name)


@pytest.fixture(scope="module")
def authored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with our own world for AppWorld's engine, without the benchmark's data."""
    root = tmp_path_factory.mktemp("appworld")
    script = Path(__file__).parent / "appworld_world.py"
    subprocess.run([str(HOSTED["appworld"].python), str(script), str(root)], check=True, stdout=subprocess.DEVNULL)
    os.environ["APPWORLD_ROOT"] = str(root)
    yield root
    del os.environ["APPWORLD_ROOT"]


def hosted(name: str) -> WorkerEnvironment:
    made = make(name)
    assert isinstance(made, WorkerEnvironment)
    return made


def opened(name: str) -> Callable[[], Iterator[WorkerEnvironment]]:
    """The environment for the tests of a module."""

    @pytest.fixture(scope="module")
    def world() -> Iterator[WorkerEnvironment]:
        made = hosted(name)
        yield made
        made.close()

    return world


@pytest.fixture(scope="module")
def appworld(authored: Path) -> Iterator[WorkerEnvironment]:
    made = hosted("appworld")
    yield made
    made.close()


textworld, reasoning_gym, scienceworld = opened("textworld"), opened("reasoning_gym"), opened("scienceworld")
agentdojo, tau2_retail, tau2_airline = opened("agentdojo"), opened("tau2_retail"), opened("tau2_airline")
# how many tasks of each split a check takes
COUNTS = {"appworld": 1, "textworld": 1, "reasoning_gym": 4, "scienceworld": 2}
COUNTS |= {"agentdojo": 4, "tau2_retail": 8, "tau2_airline": 8}


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in COUNTS])
def test_environment_keeps_the_contract(name: str, request: pytest.FixtureRequest) -> None:
    world = request.getfixturevalue(name)
    assert violations(world, COUNTS[name]) == {}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        pytest.param("tau2_retail", [52, 16, 40], marks=needs("tau2_retail")),
        pytest.param("tau2_airline", [17, 5, 18], marks=needs("tau2_airline")),
    ],
)
def test_the_splits_of_tau2_are_kept_and_every_task_asks_for_something(
    name: str, sizes: list[int], request: pytest.FixtureRequest
) -> None:
    splits = [request.getfixturevalue(name).tasks(split) for split in ("seed", "validation", "test")]
    assert [len(tasks) for tasks in splits] == sizes
    assert all(task.calls for tasks in splits for task in tasks)


@needs("appworld")
class TestAppWorld:
    def test_generated_worlds_are_not_the_benchmark(self, appworld: WorkerEnvironment) -> None:
        assert appworld.fingerprint.startswith("appworld-generated-")

    def test_reward_is_graded_by_the_evaluators_tests(self, appworld: WorkerEnvironment) -> None:
        task = appworld.tasks("seed")[0]
        code = str(task.reference[0][0].arguments["code"])
        session = appworld.open()
        session.reset(task)
        assert session.step(ToolCall("execute", {"code": "1 / 0"})).error
        turn = session.step(ToolCall("execute", {"code": code.replace("paint the fence", "sleep")}))
        assert turn.done
        score = session.score()
        session.close()
        assert sorted(score.checks.values()) == [False, True]
        assert 0 < score.reward < 0.5

    def test_api_docs_become_callable_functions(self, authored: Path) -> None:
        world = hosted("appworld_functions")
        task = next(task for task in world.tasks("test_normal"))
        session = world.open()
        offered = {tool["function"]["name"] for tool in session.reset(task).tools or []}
        assert len(offered) > 400

        def call(name: str, **arguments: object) -> object:
            turn = session.step(ToolCall(name, arguments))
            assert not turn.error, turn.content
            return json.loads(turn.content) if turn.content.startswith(("{", "[")) else turn.content

        (account,) = [
            one
            for one in call("supervisor__show_account_passwords")
            if one["account_name"] == "simple_note"  # type: ignore[attr-defined]
        ]
        email = call("supervisor__show_profile")["email"]  # type: ignore[index]
        token = call("simple_note__login", username=email, password=account["password"])["access_token"]  # type: ignore[index]
        title = task.turns[0].split("'")[1]
        call("simple_note__create_note", access_token=token, title=title, content="paint the fence")
        assert session.step(ToolCall("simple_note__create_note", {"title": "x"})).error
        assert session.step(ToolCall("simple_note__no_such_api", {})).error
        call("supervisor__complete_task")
        assert is_success(session.score().reward)
        session.close()
        world.close()

    def test_scenarios_count_together(self, appworld: WorkerEnvironment) -> None:
        assert {appworld.scenario(task) for task in appworld.tasks("test_normal")} == {"note"}

    def test_missing_data_error_names_the_download_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("APPWORLD_ROOT", str(tmp_path))
        with pytest.raises(CoevolveError, match="appworld download data"):
            make("appworld")


@needs("textworld")
class TestTextWorld:
    def test_rewards_are_graded(self, textworld: WorkerEnvironment) -> None:
        task = textworld.tasks("seed")[0]
        session = textworld.open()
        session.reset(task)
        rewards = []
        for call in task.reference[0]:
            session.step(call)
            rewards.append(session.score().reward)
        session.close()
        assert rewards == sorted(rewards)
        assert rewards[-1] == 1.0
        assert any(0 < reward < 0.5 for reward in rewards)

    def test_task_in_a_fresh_game_is_judged_by_its_final_state(self, textworld: WorkerEnvironment) -> None:
        seed_task = textworld.tasks("seed")[0]
        fresh = textworld.fresh_world(seed_task, 7)
        session = textworld.open()
        session.reset(Task.create("textworld", "x", ["look around"], fresh, [[]]))
        commands = session.step(ToolCall("commands")).content
        session.close()
        move = next(
            one["command"] for one in json.loads(commands) if one["command"].startswith(("go ", "open ", "take "))
        )
        task = Task.create("textworld", "x", ["do it"], fresh, [[ToolCall("act", {"command": move})]])
        for corruption, success in ((0.0, True), (1.0, False)):
            (episode,) = rollout(ReferencePolicy(textworld, corruption), textworld, [RolloutRequest(task, 0)], LIMITS)
            assert is_success(episode.trajectory.score) == success


@needs("reasoning_gym")
class TestReasoningGym:
    def test_every_goal_constructs_problems_that_its_checker_distinguishes(
        self, reasoning_gym: WorkerEnvironment
    ) -> None:
        session = reasoning_gym.open()
        for goal in reasoning_gym.goals:
            task = reasoning_gym.construct(goal, 7)
            (call,) = task.reference[0]
            scores = []
            for value in (call.arguments["value"], f"{call.arguments['value']}x", "", "no idea", "9" * 9000):
                session.reset(task)
                assert session.step(ToolCall("answer", {"value": value})).done
                scores.append(session.score().reward)
            assert scores[0] == 1.0 and all(score < 0.5 for score in scores[1:]), f"{goal}: {scores}"
            assert scores[2] == 0.0, goal
        session.close()

    def test_levels_differ_and_no_problem_is_in_two_splits(self, reasoning_gym: WorkerEnvironment) -> None:
        words = [task.turns[0] for split in ("seed", *reasoning_gym.panels) for task in reasoning_gym.tasks(split)]
        assert len(set(words)) == len(words) > 280
        longer = 0
        for goal in {one.rpartition("_")[0] for one in reasoning_gym.goals}:
            lengths = [
                sum(len(reasoning_gym.construct(f"{goal}_{level}", seed).turns[0]) for seed in range(10))
                for level in range(4)
            ]
            longer += lengths == sorted(lengths)
        assert longer >= 10, "of 12 kinds most are the longer, the higher the level"

    def test_another_process_constructs_the_same_problems(
        self, reasoning_gym: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONHASHSEED", "3")
        other = hosted("reasoning_gym")
        assert [one.turns for one in other.tasks("test")] == [one.turns for one in reasoning_gym.tasks("test")]
        assert [other.construct(goal, 5) for goal in reasoning_gym.goals] == [
            reasoning_gym.construct(goal, 5) for goal in reasoning_gym.goals
        ]
        with pytest.raises(CoevolveError, match="constructs no 'lcm_9'"):
            reasoning_gym.construct("lcm_9", 0)
        other.close()


@needs("scienceworld")
class TestScienceWorld:
    """Not among the environments that `make test-all` installs: its references take minutes to make."""

    def test_simulator_commands_are_refused(self, scienceworld: WorkerEnvironment) -> None:
        session = scienceworld.open()
        session.reset(scienceworld.tasks("seed")[0])
        before = session.digest()
        for command in ("reset task", "reset  task", "eat the moon", "", "0", "x" * 300):
            assert session.step(ToolCall("act", {"command": command})).error, command
        assert session.digest() == before
        session.close()


@needs("agentdojo")
class TestAgentDojo:
    def test_tasks_solved_by_doing_nothing_are_quarantined(self, agentdojo: WorkerEnvironment) -> None:
        tasks = [task for split in ("seed", *agentdojo.panels) for task in agentdojo.tasks(split)]
        assert len(tasks) == 97 - len(agentdojo.quarantine) == 92
        assert not {task.world["id"] for task in tasks} & set(agentdojo.quarantine)
        for one in agentdojo.quarantine:  # and it is so
            suite, _, name = one.partition("/")
            idle = Task.create("agentdojo", "x", ["?"], {"suite": suite, "task": name, "id": one}, [[]])
            session = agentdojo.open()
            session.reset(idle)
            assert session.score().reward == 1.0
            session.close()

    def test_synthesized_task_is_judged_by_the_final_state_of_its_reference(self, agentdojo: WorkerEnvironment) -> None:
        seed_task = next(task for task in agentdojo.tasks("seed") if task.world["suite"] == "slack")
        world = agentdojo.fresh_world(seed_task, 0)
        call = ToolCall("add_user_to_channel", {"user": "Alice", "channel": "External_0"})
        made = Task.create("agentdojo", "x", ["let Alice into External_0"], world, [[call]])
        session = agentdojo.open()
        for calls, reward in (([call], 1.0), ([], 0.0), ([call, ToolCall("answer", {"text": "done"})], 0.0)):
            session.reset(made)
            for one in calls:
                assert not session.step(one).error
            assert session.score().reward == reward
        session.reset(replace(made, reference=[[]]))
        assert session.score().reward == 0.0, "what changes nothing asks for nothing"
        session.close()

    def test_last_message_is_the_answer_if_no_other_is_given(self, agentdojo: WorkerEnvironment) -> None:
        asked = next(
            task
            for task in agentdojo.tasks("seed")
            if task.reference[0][-1].name == "answer" and len(task.reference[0]) == 2
        )
        session = agentdojo.open()
        session.reset(asked)
        session.step(asked.reference[0][0])
        assert session.score().reward == 0.0
        assert session.say(asked.reference[0][-1].arguments["text"]).done
        assert session.score().reward == 1.0
        session.close()
