"""A served model as a policy: it plays the same episodes as in this process, and requests have the right shape."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.outcomes import unread
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.endpoint.client import open_endpoint
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.policies.policy import Conversation
from coevolve.policies.transformers_policy import TransformersPolicy, load
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.evaluate.evaluation import evaluate
from coevolve.stages.schema import load as load_params
from coevolve.stages.verify.pass_rates import pass_counts
from tests import POLICY, ROOT
from tests.integration.endpoint.proxy import proxy

PARAMS = load_params(ROOT / "params.yaml")
LIMITS = Limits(16, 768, 64, 120.0)


def policy(url: str, model: str, log: Path, **changes: object) -> EndpointPolicy:
    config = PARAMS.endpoint.model_copy(update={"url": url, "model": model, "timeout": 60.0, **changes})
    return EndpointPolicy(open_endpoint(config, log), 0.0)


def played(acting: object, environment: Environment, tasks: list[Task], limits: Limits = LIMITS) -> list[Trajectory]:
    episodes = rollout(acting, environment, [RolloutRequest(task, 0) for task in tasks], limits)  # type: ignore[arg-type]
    return [episode.trajectory for episode in episodes]


def test_served_model_plays_like_the_model_in_this_process(tiny_server: tuple[str, str], tmp_path: Path) -> None:
    world = make("miniworld")
    tasks = list(world.tasks("validation")[:24])
    served = played(policy(*tiny_server, tmp_path / "log"), world, tasks)
    here = played(TransformersPolicy(*load(POLICY), 0.0), world, tasks)
    assert sum(is_success(one.score) for one in here) >= 6
    same = [(one.calls, one.score) == (other.calls, other.score) for one, other in zip(served, here, strict=True)]
    # a call that is no JSON is a 500 of this server, and an error message here
    assert sum(same) >= 20
    assert all(sum(one.tokens) > 0 for one in served if one.calls)


def reply(content: str | None, *calls: tuple[str, object], finish: str = "stop") -> tuple[int, dict[str, str], str]:
    made = [
        {"id": f"x{n}", "type": "function", "function": {"name": name, "arguments": text if isinstance(text, str) else json.dumps(text)}}
        for n, (name, text) in enumerate(calls)
    ]  # fmt: skip
    message = {"role": "assistant", "content": content, "tool_calls": made or None}
    usage = {"prompt_tokens": 50, "completion_tokens": 7}
    return 200, {}, json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


def test_parallel_calls_and_later_user_turns_are_sent(tmp_path: Path) -> None:
    environment = make("bfcl")
    task = next(one for one in environment.tasks("seed") if len(one.turns) == 2 and len(one.reference[0]) >= 2)
    first = [(call.name, call.arguments) for call in task.reference[0]]
    second = [(call.name, call.arguments) for call in task.reference[1]]
    script = [reply(None, *first), reply("done"), reply(None, *second), reply("done")]
    with proxy(script=script) as server:
        (one,) = played(policy(server.url, "m", tmp_path / "log"), environment, [task], Limits(20, 10**6, 64, 60.0))
    assert is_success(one.score) and one.stop_reason is StopReason.DONE
    assert one.tokens == [7, 7, 7, 7]
    said = server.bodies[-1]["messages"]
    roles = [message["role"] for message in said]
    assert roles == [
        *["user", "assistant"], *["tool"] * len(first), "assistant", "user", "assistant", *["tool"] * len(second)
    ]  # fmt: skip
    assert [message["tool_call_id"] for message in said if message["role"] == "tool"] == [
        call["id"] for message in said for call in message.get("tool_calls", [])
    ]
    assert said[roles.index("tool")]["content"]
    assert server.bodies[0]["tools"][0]["type"] == "function"


DEEP = "[" * 800 + "]" * 800  # which Python's reader of JSON takes, and its writer may not


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (reply(None, ("find_mail", '{"subject": ')), "the arguments of find_mail must be a JSON object"),
        (reply(None, ("find_mail", "[1]")), "the arguments of find_mail must be a JSON object"),
        (reply('<tool_call>{"name": 3}</tool_call>'), "a call must be"),
        (
            reply(None, ("find_mail", f'{{"x": {DEEP}}}')),
            "the arguments of find_mail must be a JSON object, not too deep",
        ),
        (
            reply(f'<tool_call>{{"name": "x", "arguments": {{"x": {DEEP}}}}}</tool_call>'),
            "nested deeper than 64 levels",
        ),
        (reply('<tool_call>{"name": "x", "arguments": {"x": NaN}}</tool_call>'), "finite numbers"),
    ],
)
def test_unreadable_call_is_reported_to_the_model(
    broken: tuple[int, dict[str, str], str], told: str, tmp_path: Path
) -> None:
    world = make("miniworld")
    with proxy(script=[broken, reply("done")]) as server:
        (one,) = played(policy(server.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])
    heard = server.bodies[1]["messages"][-1]
    assert told in heard["content"]
    assert not one.calls


def test_calls_in_plain_text_are_parsed(tmp_path: Path) -> None:
    world = make("miniworld")
    text = '<think>hm <tool_call></think>\n<tool_call>\n{"name": "balance", "arguments": {}}\n</tool_call>'
    with proxy(script=[reply(text), reply("done")]) as server:
        (one,) = played(policy(server.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])
    assert [call.name for call in one.calls] == ["balance"]
    assert server.bodies[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "balance"


def body(message: dict[str, object], finish: str = "stop", **more: object) -> tuple[int, dict[str, str], str]:
    """A reply whose message is exactly ``message``."""
    usage = {"prompt_tokens": 50, "completion_tokens": 7}
    return 200, {}, json.dumps({"choices": [{"message": message, "finish_reason": finish, **more}], "usage": usage})


def test_a_servers_message_goes_back_as_it_came(tmp_path: Path) -> None:
    world = make("miniworld")
    call = {
        "id": "toolu_01",
        "type": "function",
        "function": {"name": "balance", "arguments": "{ }"},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    given = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]}
    noise = {"audio": None, "refusal": None, "annotations": []}
    plain = {"role": "assistant", "content": "", "tool_calls": [{**call, "id": "toolu_02"}]}
    absent = {"role": "assistant", "tool_calls": [{**call, "id": "toolu_03"}]}
    script = [body(given | noise), body(plain), body(absent), reply("done")]
    with proxy(script=script) as server:
        played(policy(server.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])
    sent = server.bodies[3]["messages"]
    assert [message for message in sent if message["role"] == "assistant"] == [given, plain, absent]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == [
        "toolu_01", "toolu_02", "toolu_03"
    ]  # fmt: skip
    with proxy(script=[]) as silent:
        played(policy(silent.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])
    assert not silent.bodies, "the log holds the servers' messages too"


def test_messages_of_our_own_hold_no_empty_text(tmp_path: Path) -> None:
    world = make("miniworld")
    text = '<tool_call>{"name": "balance", "arguments": {}}</tool_call>'
    broken = {"type": "function", "function": {"name": "balance", "arguments": {}}}  # arguments that are no text
    script = [reply(text), body({"role": "assistant", "content": "", "tool_calls": [broken]}), reply("done")]
    with proxy(script=script) as server:
        (one,) = played(policy(server.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])
    assert [call.name for call in one.calls] == ["balance", "balance"]
    first, second = (message for message in server.bodies[2]["messages"] if message["role"] == "assistant")
    assert first["content"] is None and second["content"] is None
    assert (
        first["tool_calls"][0]["function"]
        == second["tool_calls"][0]["function"]
        == {"name": "balance", "arguments": "{}"}
    )
    assert first["tool_calls"][0]["id"] != second["tool_calls"][0]["id"]


def test_a_reply_without_words_or_calls_is_sent_as_a_message_that_servers_take(tmp_path: Path) -> None:
    environment = make("bfcl")
    task = next(one for one in environment.tasks("seed") if len(one.turns) == 2)
    with proxy(script=[reply(None), reply("done")]) as server:
        played(policy(server.url, "m", tmp_path / "log"), environment, [task], Limits(20, 10**6, 64, 60.0))
    assert server.bodies[1]["messages"][1] == {"role": "assistant", "content": "(no words)"}


def test_truncated_reply_ends_the_episode(tmp_path: Path) -> None:
    world = make("miniworld")
    with proxy(script=[reply("and then", finish="length")]) as server:
        (one,) = played(policy(server.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])
    assert one.stop_reason is StopReason.MAX_TOKENS


def refusal(words: str) -> tuple[int, dict[str, str], str]:
    return 400, {}, json.dumps({"error": {"message": words}})


def test_refused_conversation_ends_with_its_reason_and_others_go_on(tmp_path: Path) -> None:
    world, done = make("miniworld"), reply(None, ("complete_task", {}))
    long = "This model's maximum context length is 512 tokens and your request has 2000 input tokens"
    filtered = (
        "The response was filtered: the tool_calls of messages[1] violate the content policy, and it does not exist"
    )
    cases = [
        ([refusal(long)], StopReason.MAX_TOKENS, "context too long, with 31 tool schemas: This model"),
        ([reply(None, ("balance", {})), refusal(filtered)], StopReason.REFUSED, "content policy"),
        ([reply("I", finish="content_filter")], StopReason.REFUSED, "content filter"),
    ]
    for number, (script, reason, words) in enumerate(cases):
        acting = policy("http://proxy.test/v1", "m", tmp_path / str(number), concurrency=1)
        with proxy(script=[*script, done]):
            one, other = (played(acting, world, [task])[0] for task in world.tasks("seed")[:2])
        assert one.stop_reason is reason and one.counts and re.search(words, one.messages[-1]["content"])
        assert other.stop_reason is StopReason.DONE and len(acting.failures) == 1


def test_refusal_of_a_first_request_for_its_tools_ends_the_run(tmp_path: Path) -> None:
    world = make("miniworld")
    with (
        proxy(script=[refusal("does not support tools")]) as server,
        pytest.raises(CoevolveError, match="tool support"),
    ):
        played(policy(server.url, "m", tmp_path / "log"), world, [world.tasks("seed")[0]])


def test_names_that_servers_refuse_are_made_valid_and_mapped_back(tmp_path: Path) -> None:
    names = ["mail.find", "mail_find", "x" * 80, "mail find"]
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]
    messages = [{"role": "user", "content": "go"}]
    one = Conversation(0, messages, tools, make("miniworld").tasks("seed")[0], 0, 10**6, 64)
    with proxy(script=[reply(None, ("an invention!", {})), reply("done")]) as server:
        acting = policy(server.url, "m", tmp_path / "log")
        messages += [{"role": "assistant", "content": acting.act([one])[0].text}, {"role": "tool", "content": "no"}]
        acting.act([one])
        offered = [tool["function"]["name"] for tool in server.bodies[1]["tools"]]
        assert server.bodies[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "an_invention_"
        assert all(
            tool["function"]["parameters"] == {"type": "object", "properties": {}} for tool in server.bodies[0]["tools"]
        )
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in offered) and len(set(offered)) == 4
    with proxy(script=[reply(None, *((name, {}) for name in offered))]) as server:
        (said,) = policy(server.url, "m", tmp_path / "other").act([one])
    assert [call.name for call in said.calls] == names


HTML = (200, {}, "<html>busy</html>")


def test_episodes_that_nobody_played_are_not_measured(tmp_path: Path) -> None:
    world = make("miniworld")
    tasks = list(world.tasks("validation")[:2])
    config = Evaluate(tasks=2)
    with (
        proxy(script=[HTML] * 2) as server,
        pytest.raises(CoevolveError, match=r"2 of 2 episodes count nowhere: .*server.*busy"),
    ):
        evaluate(policy(server.url, "m", tmp_path / "a", retries=0), world, {"validation": tasks}, LIMITS, config, 0)
    with proxy(script=[HTML, reply(None, ("complete_task", {}))]) as server:
        acting = policy(server.url, "m", tmp_path / "b", retries=0, concurrency=1)
        counts = pass_counts(acting, world, tasks, LIMITS, 1, 0, lambda count: None)
    assert [count.rate for count in counts.values()] == [None, 0.0] and len(acting.failures) == 1


def test_unreadable_replies_are_counted_and_shown_and_other_forms_are_read(tmp_path: Path) -> None:
    world, xml = make("miniworld"), "<tool_call>\n<function=complete_task>\n</function>\n</tool_call>"
    thought = {"role": "assistant", "content": None, "reasoning_content": xml}  # vllm#19017
    usage = {"prompt_tokens": 50, "completion_tokens": 7}
    hidden = 200, dict[str, str](), json.dumps({"choices": [{"message": thought}], "usage": usage})
    with proxy(script=[reply("[TOOL_CALLS]balance{}"), hidden, reply(f"<think>hm</think>\n{xml}")]) as server:
        acting, tasks = policy(server.url, "m", tmp_path / "log"), {"validation": list(world.tasks("validation")[:1])}
        (outcome,) = evaluate(acting, world, tasks, LIMITS, Evaluate(tasks=1), 0)
    assert outcome.stop_reason == StopReason.DONE and (outcome.unread, outcome.turns) == (2, 3)
    (note,) = unread([outcome])
    assert note == "2 of 3 replies (67%) hold a call that cannot be read; the first: '[TOOL_CALLS]balance{}'"


def test_evaluate_command_plays_a_served_model(tiny_server: tuple[str, str], tmp_path: Path) -> None:
    command = [
        *[str(Path(sys.executable).parent / "coevolve"), "evaluate", "--environment", "miniworld", "--split", "validation"],
        *["--tasks", "4", "-S", "policy.episode_tokens=768", "-S", "policy.reply_tokens=64", "--log", str(tmp_path / "log")],
        *["-S", f"endpoint.model={tiny_server[1]}", "--policy", tiny_server[0]],
    ]  # fmt: skip
    first = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    again = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "validation" in first and "tokens; requests and replies:" in first
    timeless = re.compile(r", [\d.]+ s$", re.MULTILINE)
    assert timeless.sub("", first) == timeless.sub("", again)
    wrong = subprocess.run([*command, "--policy", "http://user:pw@host/v1"], capture_output=True, text=True, cwd=ROOT)
    assert wrong.returncode == 1
    assert "endpoint.url: expected http://HOST/PATH" in wrong.stderr and "pw" not in wrong.stderr
