"""Whatever a server sends ends in an answer or in one line, and is paid for."""

import gzip
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import Answer, Exhausted, Failed
from coevolve.endpoint.log import RequestLog
from tests.integration.endpoint.proxy import proxy
from tests.integration.endpoint.raw import raw, reply
from tests.integration.endpoint.test_client import GOOD, ask, endpoint

NAN, INF = float("nan"), float("inf")
NO_COUNTS: list[Any] = [None, {}, [], "12", 7, {"prompt_tokens": None}, {"total_tokens": -5}]
NO_COUNTS += [
    {"prompt_tokens": count, "completion_tokens": count}
    for count in (-1, -(10**9), 0, 10**10, 10**400, NAN, INF, -INF, 1e300, True, "3", [3], {"a": 1})
]


@pytest.mark.parametrize("usage", NO_COUNTS, ids=lambda one: str(one)[:40])
def test_a_server_that_does_not_count_is_counted_for(tmp_path: Path, usage: Any) -> None:
    """The hard stop in tokens holds by what was reserved; on one thread and on many."""
    body = json.dumps({**json.loads(GOOD), "usage": usage})
    reserved = ask("00").tokens()
    with proxy(script=[(200, {}, body)] * 200) as server:
        for concurrency in (1, 8):
            folder = tmp_path / str(concurrency)
            one = endpoint(server.url, folder, budget_tokens=17 * reserved, concurrency=concurrency)

            def tried(number: int, one: Any = one) -> bool:
                try:
                    one.chat(ask(f"{number:02}"))
                    return True
                except Exhausted:
                    return False

            with ThreadPoolExecutor(concurrency) as pool:
                assert sum(pool.map(tried, range(60))) == 17
            spend = one.spend
            assert spend.prompt_tokens + spend.completion_tokens == 17 * reserved
            again = endpoint(server.url, folder, budget_tokens=17 * reserved)
            for line in one.used():
                again.chat(ask(str(line["request"]["messages"][0]["content"])))  # type: ignore[index]
            assert again.spend.prompt_tokens == spend.prompt_tokens, "what is remembered counts the same"


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"choices": [' + "[" * 900 + "]" * 900 + "]}",
        '{"choices": 1e999, "usage": Infinity}',
        '{"error": ' + "[" * 900 + "]" * 900 + "}",
        '{"error": {"message": "context length is ' + "9" * 5000 + '"}}',
        '{"choices": [{"message": {"content": "a", "tool_calls": [{"function": {"name": {}}}]}}]}',
        "9" * 5000,
        "",
    ],
    ids=lambda one: one[:20],
)
@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_a_reply_that_is_none_is_one_line(tmp_path: Path, body: str, status: int) -> None:
    with proxy(script=[(status, {}, body)] * 4) as server:
        with pytest.raises((Failed, CoevolveError)) as caught:
            endpoint(server.url, tmp_path, retries=0).chat(ask())
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=hex",
        "x; charset=zlib_codec",
        "x; charset=idna",
        "x; charset=undefined",
        "x;charset=",
        "",
    ],
)
def test_a_reply_is_read_as_utf_8_whatever_its_header_says(tmp_path: Path, kind: str) -> None:
    body = GOOD.replace("yes", "ja, schön").encode()
    with raw(lambda: [reply(body, Content_Type=kind)]) as url:
        assert endpoint(url, tmp_path).chat(ask()).content == "ja, schön"


@pytest.mark.parametrize("after", ["nan", "-1", "-inf", "{" * 9000, "Sun, 99 Nov 9999 99:99:99 GMT", "x", "1e-9", ""])
def test_an_unreadable_retry_after_is_none(tmp_path: Path, after: str) -> None:
    with proxy(script=[(429, {"Retry-After": after}, "{}"), (200, {}, GOOD)]) as server:
        assert endpoint(server.url, tmp_path).chat(ask()).content == "yes"


def test_half_of_a_character_breaks_nothing(tmp_path: Path) -> None:
    """A reply may spell what UTF-8 cannot: it is asked on with, logged, and read again."""
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
    st.binary(max_size=64)
    | (COMPLETION | VALUES).map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries({"error": VALUES}).map(lambda value: json.dumps(value).encode())
    | st.text(max_size=40).map(
        lambda text: json.dumps({"message": f"context length is {text} max_tokens unknown"}).encode()
    )
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content_Type": st.sampled_from(["application/json", "text/html; charset=nosuch", "a; charset=hex"]),
        "Content_Encoding": st.sampled_from(["gzip", "br", "identity", "gzip, gzip", "zstd"]),
        "Retry_After": st.sampled_from(["0", "nan", "700", "x", "1e999"]),
        "Set_Cookie": st.sampled_from(["a=b; Path=/; Expires=x", "=;;=", "a" * 5000]),
        "Location": st.sampled_from(["http://[", "/x", "http://elsewhere.invalid"]),
        "Transfer_Encoding": st.sampled_from(["chunked", "x"]),
    },
)
REPLY = st.builds(reply, BODY, st.sampled_from([200, 200, 200, 204, 301, 400, 401, 404, 422, 429, 500, 999]))
FULL = st.builds(lambda body, status, headers: reply(body, status, **headers), BODY, st.integers(200, 599), HEADERS)
ZIPPED = BODY.map(lambda body: reply(gzip.compress(body), 200, Content_Encoding="gzip"))


def test_whatever_bytes_come_it_is_an_answer_or_one_line() -> None:
    sent = [b""]
    with raw(lambda: [sent[0]]) as url:

        @settings(max_examples=150, deadline=None)
        @given(REPLY | FULL | ZIPPED | st.binary(max_size=64).map(lambda text: b"HTTP/1.1 200 " + text))
        def answered(whole: bytes) -> None:
            sent[0] = whole
            with tempfile.TemporaryDirectory() as name:
                one = endpoint(url, Path(name), retries=0)
                try:
                    answer = one.chat(ask())
                    check(answer)
                    assert RequestLog(Path(name) / "log.jsonl", writable=False).get(one.key(ask())) == answer
                except (Failed, Exhausted, CoevolveError) as error:
                    assert str(error).isprintable() and len(str(error)) < 1000
                finally:
                    one.close()

        answered()


def check(answer: Answer) -> None:
    assert answer.prompt_tokens >= 1 and answer.completion_tokens >= 0
    for text in (answer.content, answer.finish_reason, *(t for c in answer.calls for t in (c.name, c.arguments))):
        text.encode()
