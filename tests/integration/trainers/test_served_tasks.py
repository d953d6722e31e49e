"""`coevolve env serve --tasks`: synthesized tasks for any OpenEnv client, with the scores of our own loop."""

import http.client
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks, write_jsonl
from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.trainers.replay import checked_tasks
from coevolve_environments.openenv.openenv_environment import HOSTED, SAY
from tests import ROOT
from tests.contract import violations
from tests.integration.coevolve_environments.test_openenv import running
from tests.waiting import PATIENCE, free_port

needs = pytest.mark.skipif(not HOSTED.installed(), reason="run `coevolve env install openenv`")
HERE = Path(__file__).parent
GROWN = HERE / "made/grown.jsonl"  # `coevolve grow tests/unit/rollouts/made/verl --environment miniworld --count 10`
LIMITS = Limits(16, 10**6, 64, PATIENCE)
SERVE = [sys.executable, "-m", "coevolve.cli", "env", "serve"]


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """Ten synthesized tasks of miniworld, and ten of its own."""
    return [*read_tasks(GROWN), *make("miniworld").tasks("validation")[:10]]


@pytest.fixture(scope="module")
def server(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    write_jsonl(folder / "new.jsonl", tasks)
    log = folder / "log"
    with running([*SERVE, "miniworld", "--tasks", str(folder / "new.jsonl"), "--port", str(port)], port, log):
        assert f"serving miniworld (split tasks: 20 tasks of {folder / 'new.jsonl'})" in log.read_text()
        yield os.environ["OPENENV_URL"]


@needs
def test_server_lists_splits_and_tasks(server: str, tasks: list[Task]) -> None:
    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(server + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    assert ask("/metadata")["description"].endswith("; split tasks: 20 checked tasks of new.jsonl")
    assert {"tasks", "seed", "test"} <= {split["name"] for split in ask("/miniworld/splits")}
    specs = ask("/miniworld/tasks", {"split": "tasks"})["tasks"]
    assert [spec["id"] for spec in specs] == [task.task_id for task in tasks]


UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}


@needs
@pytest.mark.parametrize(
    ("headers", "served"),
    [
        ({}, True),
        ({"Origin": "{own}"}, True),
        ({"Host": "localhost:1"}, True),
        ({"Host": "evil.example"}, False),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
    ],
)
def test_page_of_another_site_gets_nothing(server: str, headers: dict[str, str], served: bool) -> None:
    """Its requests carry its origin. By rebinding its name, they may carry the name of its site as the host instead."""
    host = server.removeprefix("http://")
    headers = {"Host": host} | {key: value.format(own=server) for key, value in headers.items()}
    for path, more, good in (("/metadata", {}, 200), ("/ws", UPGRADE, 101)):
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        connection.request("GET", path, headers={**headers, **more})
        assert connection.getresponse().status == (good if served else 403)
        connection.close()


@needs
@pytest.mark.parametrize("index", [-1, 20])
def test_task_beyond_the_split_is_an_error_of_the_client(server: str, index: int) -> None:
    place = f"{server}/miniworld/task"
    body = json.dumps({"split": "tasks", "index": index}).encode()
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(
            urllib.request.Request(place, body, {"Content-Type": "application/json"}), timeout=PATIENCE
        )


@needs
def test_a_served_environment_keeps_the_contract(server: str) -> None:
    served = make("openenv")
    assert violations(served, 3) == {}
    served.close()  # type: ignore[attr-defined]


@needs
def test_episodes_score_as_in_our_own_loop(server: str, tasks: list[Task]) -> None:
    """An agent that omits calls gets the same score over the wire and in this process."""
    ours = make("miniworld")
    played = rollout(
        ReferencePolicy(ours, 0.4), ours, [RolloutRequest(task, n) for n, task in enumerate(tasks)], LIMITS
    )
    remote = make("openenv")
    places = [{"server": remote.fingerprint, "split": "tasks", "index": number} for number in range(len(tasks))]
    copies = [
        Task.create("openenv", "seed", task.turns, place, task.reference)
        for task, place in zip(tasks, places, strict=True)
    ]
    there = rollout(
        ReferencePolicy(remote, 0.4), remote, [RolloutRequest(task, n) for n, task in enumerate(copies)], LIMITS
    )
    remote.close()  # type: ignore[attr-defined]
    expected = [episode.trajectory.score for episode in played]
    assert [episode.trajectory.score for episode in there] == expected
    assert len(set(expected)) > 2 and 1.0 in expected
    calls = [[call.observation for call in episode.trajectory.calls] for episode in (*played, *there)]
    assert calls[: len(tasks)] == calls[len(tasks) :]


def summed(server: str, episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    client = [str(HOSTED.python), str(HERE / "summing.py"), server]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        client, input=json.dumps(episodes), capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def action(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "arguments": call.arguments}


@needs
def test_sum_of_change_rewards_is_the_score_at_any_time(server: str, tasks: list[Task]) -> None:
    """It may stop at a limit of turns, and ends an episode with a sentence instead of the tool `say`."""
    episodes: list[dict[str, Any]] = [
        {"reset": {"split": "tasks", "index": number, "rewards": "change"}, "actions": list(map(action, calls))}
        for number, task in enumerate(tasks[8:12], 8)
        for calls in (task.calls[:1], task.calls[:-1], task.calls)
    ]
    episodes[-1]["actions"].append("All of it is done.")
    results = summed(server, episodes)
    assert {SAY, "find_contact"} <= set(results[0]["tools"])
    for result in results:
        assert result["sum"] == pytest.approx(result["state"]["reward"], abs=1e-9)
    assert {round(result["sum"], 3) for result in results} > {1.0} and results[-1]["last"]["done"]


@needs
def test_default_reward_comes_at_the_end_and_plain_words_are_an_error(server: str, tasks: list[Task]) -> None:
    plain = {"split": "tasks", "index": 10}
    calls = [*map(action, tasks[10].calls[:-1]), {"tool_name": SAY, "arguments": {"text": "done"}}]
    episodes = [{"reset": plain, "actions": actions} for actions in (calls[:-1], calls, ["Done"])]
    (cut, whole, wrong) = summed(server, episodes)
    assert cut["sum"] == 0.0 and not cut["last"]["done"]
    assert whole["sum"] == whole["state"]["reward"] and whole["last"]["done"]
    assert wrong["last"]["observation"]["error"] and not wrong["last"]["done"]


def bad(name: str, tasks: list[Task], path: Path) -> None:
    """Write a file that cannot be served."""
    if name == "empty":
        path.write_text("")
    if name == "no task":
        path.write_text('{"turns": ["hello"]}\n')
    if name == "other environment":
        write_jsonl(path, make("sql").tasks("validation")[:1])
    if name == "reference fails":
        good = tasks[0]
        write_jsonl(path, [tasks[1], Task.create("miniworld", "seed", good.turns, good.world, [good.calls[:1]])])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no such file"),
        ("empty", "expected at least 1 task, found 0"),
        ("no task", ":1: task_id: Field required"),
        ("other environment", ":1: task "),
        ("reference fails", "does not accept 1 of 2 tasks; task "),
    ],
)
def test_unservable_tasks_are_a_one_line_error(name: str, message: str, tasks: list[Task], tmp_path: Path) -> None:
    bad(name, tasks, path := tmp_path / "new.jsonl")
    with pytest.raises(CoevolveError) as caught:
        checked_tasks(make("miniworld"), "miniworld", path)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value) and "\n" not in str(caught.value)
