"""The client of an endpoint: retries, refusals, budgets, and replies that are paid for once."""

import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import BaseModel

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import Ask, Endpoint, Exhausted, Failed, RequestLog, open_endpoint
from coevolve.endpoint.config import EndpointSection
from coevolve.endpoint.structured import Broken, ask_json
from tests.integration.endpoint.proxy import proxy
from tests.unit.stages.train.small import PARAMS
from tests.waiting import PATIENCE

GOOD = json.dumps(
    {
        "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
    }
)
OK = (200, {}, GOOD)


def config(url: str, model: str = "m", **changes: object) -> EndpointSection:
    section = PARAMS.endpoint
    return section.model_copy(update={"url": url, "model": model, "timeout": PATIENCE, **changes})


def ask(text: str = "hello", **changes: object) -> Ask:
    return Ask(
        **{"messages": [{"role": "user", "content": text}], "temperature": 0.0, "max_tokens": 8, "seed": 1, **changes}
    )  # type: ignore[arg-type]


def endpoint(url: str, folder: Path, **changes: object) -> Endpoint:
    return open_endpoint(config(url, **changes), folder / "log.jsonl")  # type: ignore[arg-type]


def test_an_answer_in_the_log_is_not_paid_for_again(tmp_path: Path) -> None:
    with proxy(script=[OK]) as server:
        first = endpoint(server.url, tmp_path)
        assert first.chat(ask()).content == "yes"
        assert first.chat(ask()).content == "yes"
        second = endpoint(server.url, tmp_path)
        assert second.chat(ask()).content == "yes"
        assert len(server.bodies) == 1
        assert (second.spend.requests, second.spend.prompt_tokens) == (1, 10)


def test_two_threads_with_the_same_request_pay_once(tmp_path: Path) -> None:
    with proxy(script=[OK]) as server, ThreadPoolExecutor(8) as pool:
        one = endpoint(server.url, tmp_path)
        assert {answer.content for answer in pool.map(one.chat, [ask()] * 8)} == {"yes"}
        assert len(server.bodies) == 1


def test_only_a_line_that_a_crash_cut_short_is_sent_again(tmp_path: Path) -> None:
    with proxy(script=[OK, OK, OK]) as server:
        one = endpoint(server.url, tmp_path)
        one.chat(ask("a"))
        one.chat(ask("b"))
        log = tmp_path / "log.jsonl"
        log.write_bytes(log.read_bytes()[:-30])
        again = endpoint(server.url, tmp_path)
        again.chat(ask("a"))
        assert len(server.bodies) == 2
        again.chat(ask("b"))
        assert len(server.bodies) == 3
    assert len(RequestLog(log)) == 2


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    with proxy(script=[(429, {"Retry-After": "1"}, "{}"), OK]) as server:
        began = time.monotonic()
        assert endpoint(server.url, tmp_path).chat(ask()).content == "yes"
        assert time.monotonic() - began >= 1.0


def test_a_retry_after_of_hours_ends_the_stage(tmp_path: Path) -> None:
    with (
        proxy(script=[(429, {"Retry-After": "7200"}, "{}")]) as server,
        pytest.raises(CoevolveError, match="asks to wait 7200 s; then run the same command again"),
    ):
        endpoint(server.url, tmp_path).chat(ask())


def test_budget_is_a_hard_stop(tmp_path: Path) -> None:
    with proxy(script=[OK] * 9) as server:
        one = endpoint(server.url, tmp_path, budget_requests=3)
        for number in range(3):
            one.chat(ask(str(number)))
        with pytest.raises(Exhausted, match=r"endpoint.budget_requests \(3\)"):
            one.chat(ask("more"))
        assert len(server.bodies) == 3
        assert one.chat(ask("1")).content == "yes", "what is known costs nothing"
        tokens = endpoint(server.url, tmp_path / "tokens", budget_tokens=40)
        tokens.chat(ask("0"))
        tokens.chat(ask("1"))
        with pytest.raises(Exhausted, match="budget_tokens"):
            tokens.chat(ask("2"))
        assert tokens.spend.prompt_tokens + tokens.spend.completion_tokens <= 40


def test_open_requests_count_against_the_budget(tmp_path: Path) -> None:
    with proxy(script=[OK] * 40) as server, ThreadPoolExecutor(16) as pool:
        one = endpoint(server.url, tmp_path, budget_requests=10)

        def tried(number: int) -> bool:
            try:
                one.chat(ask(str(number)))
                return True
            except Exhausted:
                return False

        assert sum(pool.map(tried, range(40))) == 10
        assert len(server.bodies) == 10


def test_unreachable_server_is_a_one_line_error(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    with pytest.raises(CoevolveError, match=rf"endpoint {url}: no answer after 2 attempts \(ConnectError"):
        endpoint(url, tmp_path, retries=1).chat(ask())
    with pytest.raises(CoevolveError, match=f"endpoint {url}: unreachable"):
        endpoint(url, tmp_path, model="")


CONTEXT = "This model's maximum context length is 4096 tokens"
OPENAI = f"{CONTEXT}. However, you requested 5000 tokens (4992 in the messages, 8 in it)."
VLLM = f"{CONTEXT} and your request has 4992 input tokens (8 > 4096 - 4992)."
LONG = r"context too long, with 1 tool schemas: This model's maximum context length is 4096 tokens"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {}}}}}
IDLE = {"type": "function", "function": {"name": "g", "description": "Wait", "parameters": {}}}


@pytest.mark.parametrize(
    ("status", "reply", "error", "said"),
    [
        (404, {"detail": "nope"}, CoevolveError, r"no model 'm'; .*correct endpoint.model"),
        (400, {"message": OPENAI}, Failed, LONG),
        (400, {"message": VLLM}, Failed, LONG),
    ],
)
def test_a_refusal_names_what_to_correct(
    tmp_path: Path, status: int, reply: object, error: type[Exception], said: str
) -> None:
    with proxy(script=[(status, {}, json.dumps(reply))]) as server, pytest.raises(error, match=said):
        endpoint(server.url, tmp_path).chat(ask(tools=[TOOL]))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),  # vLLM
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit"),  # OpenRouter
        (500, "tools param requires --jinja flag"),  # llama.cpp
        (400, "deepseek-reasoner does not support Function Calling"),
        (400, "Unsupported parameter: 'tools' is not supported with this model."),  # OpenAI
        (400, "This model doesn't support tool use in streaming mode."),  # Bedrock
        (400, "UnsupportedParamsError: bedrock does not support parameters: ['tools'], for model=x"),  # LiteLLM
        (400, "Function calling is not enabled for models/gemma-3"),
    ],
)
def test_a_model_served_without_tools_is_named_so(tmp_path: Path, status: int, words: str) -> None:
    script = [(status, {}, json.dumps({"error": {"message": words}}))]
    with proxy(script=script) as server, pytest.raises(CoevolveError, match="m is served without tool support"):
        endpoint(server.url, tmp_path, retries=0).chat(ask(tools=[TOOL]))


@pytest.mark.parametrize(
    "words",
    [
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024",
        "Invalid 'tools': array too long. Expected an array with maximum length 128",
        "Invalid schema for function 'f': In context=(), object schema is wrong",
        "tools.0.custom.input_schema: JSON schema is invalid",
        "tools[0].function.strict is not supported",
        "messages.2: tool content must not be empty",
    ],
)
def test_a_refusal_of_a_schema_or_a_message_has_the_servers_words_and_no_remedy(tmp_path: Path, words: str) -> None:
    script = [(400, {}, json.dumps({"error": {"message": words}}))]
    with proxy(script=script) as server, pytest.raises(Failed) as caught:
        endpoint(server.url, tmp_path).chat(ask(tools=[TOOL]))
    assert str(caught.value) == f"the server refuses the request (HTTP 400): {words}"


def test_a_server_that_refuses_every_request_ends_the_stage(tmp_path: Path) -> None:
    refused = (400, {}, json.dumps({"error": {"message": "no such schema"}}))
    with proxy(script=[refused] * 8) as server:
        one = endpoint(server.url, tmp_path)
        for number in range(7):
            with pytest.raises(Failed, match="no such schema"):
                one.chat(ask(str(number)))
        with pytest.raises(CoevolveError, match=r"none of 8 requests got an answer; .*no such schema"):
            one.chat(ask("8"))
    with proxy(script=[OK, *[refused] * 9]) as server:
        other = endpoint(server.url, tmp_path / "other")
        other.chat(ask())
        for number in range(9):
            with pytest.raises(Failed):
                other.chat(ask(str(number)))


def test_a_tool_without_arguments_is_sent_without_parameters_to_a_server_that_refuses_them(tmp_path: Path) -> None:
    words = "GenerateContentRequest.tools[1].function_declarations[1].parameters.properties: should be non-empty for OBJECT type"
    with proxy(script=[(400, {}, json.dumps({"error": {"message": words}})), OK, OK]) as server:
        one = endpoint(server.url, tmp_path)
        for text in ("a", "b"):
            one.chat(ask(text, tools=[TOOL, IDLE]))
    first, *later = ([tool["function"] for tool in sent["tools"]] for sent in server.bodies)
    assert first[1]["parameters"] == {"type": "object", "properties": {}}
    assert later == [[TOOL["function"], {"name": "g", "description": "Wait"}]] * 2
    words = "Invalid schema for function 'h': [] is too short (required)"
    some = {
        "type": "function",
        "function": {"name": "h", "parameters": {**TOOL["function"]["parameters"], "required": []}},
    }
    with proxy(script=[(400, {}, json.dumps({"detail": words})), OK]) as server:
        endpoint(server.url, tmp_path / "required").chat(ask(tools=[some, IDLE]))
    assert server.bodies[1]["tools"] == [
        {**some, "function": {**some["function"], **TOOL["function"], "name": "h"}},
        server.bodies[0]["tools"][1],
    ]


def test_a_field_of_a_message_that_a_server_refuses_is_not_sent_again(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": "I", "reasoning": "hm"}
    refused = (400, {}, json.dumps({"error": {"message": "'messages.1': property 'reasoning' is unsupported"}}))
    with proxy(script=[refused, OK]) as server:
        endpoint(server.url, tmp_path).chat(ask(messages=[{"role": "user", "content": "a"}, said]))
    assert [sent["messages"][1] for sent in server.bodies] == [said, {"role": "assistant", "content": "I"}]


def test_fields_that_a_server_rejects_are_omitted(tmp_path: Path) -> None:
    refusals = [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "Unexpected fields in the request: {'seed'}",
    ]
    script = [(422, {}, json.dumps({"detail": words})) for words in refusals]
    with proxy(script=[*script, OK, OK]) as server:
        one = endpoint(server.url, tmp_path)
        one.chat(ask("a"))
        one.chat(ask("b"))
        assert "seed" not in server.bodies[-1] and "max_tokens" not in server.bodies[-1]
        assert server.bodies[-1]["max_completion_tokens"] == 8
        assert len(server.bodies) == 4


class Reply(BaseModel):
    size: int


def test_a_broken_reply_is_retried_with_the_error_and_then_dropped(tmp_path: Path) -> None:
    def reply(text: str) -> tuple[int, dict[str, str], str]:
        return (200, {}, GOOD.replace("yes", text.replace('"', '\\"')))

    with proxy(
        script=[reply('{"size": "big"}'), reply('```json\\n{"size": 3}\\n```'), reply("no"), reply("no")]
    ) as server:
        one, counts = endpoint(server.url, tmp_path), Counter[str]()
        message = [{"role": "user", "content": "how big?"}]
        assert ask_json(one, message, Reply, 0, counts).size == 3
        told = server.bodies[1]["messages"][-1]["content"]
        assert "breaks the contract: size: Input should be a valid integer" in told
        with pytest.raises(Broken, match="there is no JSON object"):
            ask_json(one, [{"role": "user", "content": "how small?"}], Reply, 0, counts)
        assert (counts["repaired"], counts["dropped"]) == (1, 1)
        assert len(server.bodies) == 4


def test_many_threads_write_one_log(tmp_path: Path) -> None:
    before = threading.active_count()  # what other tests in this process have left
    with proxy(script=[OK] * 64) as server, ThreadPoolExecutor(16) as pool:
        one = endpoint(server.url, tmp_path)
        list(pool.map(lambda number: one.chat(ask(str(number))), range(64)))
    assert len(RequestLog(tmp_path / "log.jsonl")) == 64
    assert threading.active_count() - before < 64, "no thread for each request stays"


def test_a_replay_of_another_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text("")
    replay = open_endpoint(config("http://127.0.0.1:9/v1", replay=str(tmp_path / "other.jsonl")))
    with pytest.raises(Exhausted, match="replayed"):
        replay.chat(ask())
    assert replay.missing == 1
    with pytest.raises(CoevolveError, match=r"endpoint.replay: .*: no such file"):
        open_endpoint(config("http://127.0.0.1:9/v1", replay=str(tmp_path / "none.jsonl")))
