"""Every reply of a server becomes an answer or a one-line error, and counts against the budget.

No server holds a request longer than a reply may take, or sends more than a reply may hold.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import Answer, Exhausted, Failed, RequestLog
from tests.integration.endpoint.proxy import proxy
from tests.integration.endpoint.test_client import GOOD, ask, endpoint
from tests.waiting import PATIENCE, until

NAN, INF = float("nan"), float("inf")
NO_COUNTS: list[Any] = [None, "12", {"prompt_tokens": None}]
NO_COUNTS += [{"prompt_tokens": count, "completion_tokens": count} for count in (-1, 10**10, NAN, INF, True, "3")]


@pytest.mark.parametrize("usage", NO_COUNTS, ids=lambda one: str(one)[:40])
def test_missing_and_impossible_token_counts_become_the_reserved_number(tmp_path: Path, usage: Any) -> None:
    body = json.dumps({**json.loads(GOOD), "usage": usage})
    reserved = ask("0").prompt_tokens() + ask("0").max_tokens
    with proxy(script=[(200, {}, body)] * 4) as server:
        client = endpoint(server.url, tmp_path, budget_tokens=3 * reserved)
        for number in range(3):
            client.chat(ask(str(number)))
        with pytest.raises(Exhausted):
            client.chat(ask("3"))
    assert client.spend.prompt_tokens + client.spend.completion_tokens == 3 * reserved


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"choices": [' + "[" * 900 + "]" * 900 + "]}",
        '{"choices": 1e999, "usage": Infinity}',
        '{"error": {"message": "context length is ' + "9" * 5000 + '"}}',
        "9" * 5000,
        "",
    ],
    ids=lambda one: one[:20],
)
@pytest.mark.parametrize("status", [200, 400])
def test_an_unusable_reply_is_a_one_line_error(tmp_path: Path, body: str, status: int) -> None:
    with proxy(script=[(status, {}, body)] * 4) as server:
        with pytest.raises((Failed, CoevolveError)) as caught:
            endpoint(server.url, tmp_path, retries=0).chat(ask())
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
    {"type": "text", "text": "a"},
    {"type": "text", "text": "b"},
]


@pytest.mark.parametrize(
    ("message", "finish", "content", "end"),
    [
        ({"content": PARTS}, "stop", "ab", "stop"),
        ({"content": PARTS[:1]}, "stop", "<think>\nhm\n</think>", "stop"),
        ({"content": [{"type": "new", "x": 1}]}, "stop", '{"type": "new", "x": 1}', "stop"),
        ({"content": None, "refusal": "I cannot help with that"}, "stop", "I cannot help with that", "stop"),
        ({"content": "cut"}, "MAX_TOKENS", "cut", "length"),
        ({"content": "cut"}, "model_length", "cut", "length"),
        ({"content": None}, "content_filter: SAFETY", "", "content_filter"),
        ({"content": ""}, "guardrail_intervened", "", "content_filter"),
        ({}, None, "", "stop"),
    ],
)
def test_forms_of_a_reply_that_servers_use(
    tmp_path: Path, message: dict[str, Any], finish: str | None, content: str, end: str
) -> None:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": finish}
    with proxy(script=[(200, {}, json.dumps({"choices": [choice]}))]) as server:
        answer = endpoint(server.url, tmp_path).chat(ask())
    assert (answer.content, answer.finish_reason) == (content, end)


def test_an_error_in_a_reply_with_status_200_is_asked_again(tmp_path: Path) -> None:
    broken = {"message": {"content": "the be"}, "finish_reason": "error", "error": {"message": "upstream closed"}}
    script = [json.dumps({"choices": [broken]}), json.dumps({"error": {"message": "no provider"}}), GOOD]
    with proxy(script=[(200, {}, text) for text in script]) as server:
        assert endpoint(server.url, tmp_path).chat(ask()).content == "yes"
    for text, said in zip(script[:2], ("upstream closed", "no provider"), strict=True):
        with proxy(script=[(200, {}, text)]) as server, pytest.raises(Failed, match=said):
            one = endpoint(server.url, tmp_path / said, retries=0)
            one.spend.answered = 1
            one.chat(ask())


@pytest.mark.parametrize("after", ["nan", "-1", "Sun, 06 Nov 1994 08:49:37 GMT"])
def test_an_unreadable_retry_after_is_ignored(tmp_path: Path, after: str) -> None:
    with proxy(script=[(429, {"Retry-After": after}, "{}"), (200, {}, GOOD)]) as server:
        assert endpoint(server.url, tmp_path).chat(ask()).content == "yes"


def test_a_lone_surrogate_is_sent_logged_and_read_as_its_escape(tmp_path: Path) -> None:
    with proxy(script=[(200, {}, GOOD.replace("yes", r"a \ud800 b \ud83d\ude00"))] * 2) as server:
        one = endpoint(server.url, tmp_path)
        content = one.chat(ask()).content
        assert content == r"a \ud800 b " + "\U0001f600"
        one.chat(ask(f"{content} and \udc00"))
        assert server.bodies[1]["messages"][0]["content"].endswith(r" and \udc00")
        assert len(RequestLog(tmp_path / "log.jsonl")) == 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def either(*right: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(right) | VALUES


CALL = st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": either("f"), "arguments": either("{}")})})
MESSAGE = st.fixed_dictionaries({"content": either("hello"), "tool_calls": st.lists(CALL, max_size=2) | VALUES})
CHOICE = st.fixed_dictionaries({"message": MESSAGE | VALUES, "finish_reason": either("stop", "length")})
COUNT = st.integers() | st.floats()
USAGE = st.fixed_dictionaries({"prompt_tokens": COUNT, "completion_tokens": COUNT})
COMPLETION = st.fixed_dictionaries({"choices": st.lists(CHOICE, max_size=2) | VALUES, "usage": USAGE | VALUES})
BODY = (
    (COMPLETION | VALUES).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=64)
    | st.fixed_dictionaries({"error": VALUES}).map(lambda value: json.dumps(value).encode())
    | st.text(max_size=40).map(lambda text: json.dumps({"message": f"context length is {text}"}).encode())
)
STATUS = st.sampled_from([200, 200, 200, 204, 301, 400, 401, 404, 422, 429, 500, 999])


@settings(max_examples=30, deadline=None)
@given(STATUS, BODY)
def test_any_body_becomes_an_answer_or_a_one_line_error(status: int, body: bytes) -> None:
    with proxy(script=[(status, {}, body)] * 9) as server, tempfile.TemporaryDirectory() as name:
        client = endpoint(server.url, Path(name), retries=0)
        try:
            answer = client.chat(ask())
            check(answer)
            assert RequestLog(Path(name) / "log.jsonl", writable=False).get(client.key(ask())) == answer
        except (Failed, Exhausted, CoevolveError) as error:
            assert str(error).isprintable() and len(str(error)) < 1000
        finally:
            client.close()


def check(answer: Answer) -> None:
    assert answer.prompt_tokens >= 1 and answer.completion_tokens >= 0
    for text in (answer.content, answer.finish_reason, *(t for c in answer.calls for t in (c.name, c.arguments))):
        text.encode()


class Slow(httpx2.SyncByteStream):
    """Sends ``body`` in single bytes, so that no read is late."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for byte in self._body:
            time.sleep(0.01)
            yield bytes([byte])


def test_the_timeout_limits_the_whole_reply(tmp_path: Path) -> None:
    with proxy(script=[(200, {}, Slow(GOOD.encode()))]) as server:
        client = endpoint(server.url, tmp_path, timeout=0.5, retries=0)
        with pytest.raises(CoevolveError, match=r"no whole reply within 0\.5 s"):
            client.chat(ask())
        client.close()


def test_a_reply_has_a_largest_size(tmp_path: Path) -> None:
    with proxy(script=[(200, {}, b" " * (9 * 2**20))]) as server:
        client = endpoint(server.url, tmp_path, retries=0)
        with pytest.raises(Failed, match="a reply of more than 8 MB"):
            client.chat(ask())
        client.close()


def test_closing_ends_pauses_and_waits_for_open_replies(tmp_path: Path) -> None:
    scripts = {"waits": (429, {"Retry-After": "590"}, "{}"), "replies": (200, {}, Slow(GOOD.encode()))}
    for kind, script in scripts.items():
        with proxy(script=[script]) as server, ThreadPoolExecutor(1) as pool:
            client = endpoint(server.url, tmp_path / kind, retries=3)
            waiting = pool.submit(client.chat, ask())
            until(lambda server=server: server.bodies, "no request comes")
            client.close()
            if kind == "waits":
                assert isinstance(waiting.exception(PATIENCE), Exhausted)
            else:
                assert waiting.result(PATIENCE).content == "yes"
