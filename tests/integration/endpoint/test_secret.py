"""The key is in no error, no log, no file and no answer."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import httpx2
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.progress import bar
from coevolve.endpoint.client import Failed, open_endpoint
from coevolve.endpoint.spending import metered
from coevolve.stages.schema import load as load_params
from tests.integration.endpoint.proxy import proxy
from tests.integration.endpoint.test_client import GOOD, ask, config
from tests.unit.stages.test_schema import edited

KEY = "sk-this-is/the+key-0123456789"
ESCAPED = "".join(f"\\u{ord(sign):04X}" for sign in KEY)  # as some writers of JSON escape any character
PERCENT = "".join(f"%{ord(sign):02x}" for sign in KEY)
BASIC = [base64.b64encode(f"{user}:{KEY}".encode()).decode() for user in ("", "u", "us")]


def completion(content: str, arguments: str = "{}") -> str:
    """A chat completion as JSON; ``content`` is JSON already."""
    call = json.dumps({"function": {"name": "f", "arguments": arguments}})
    return f'{{"choices": [{{"message": {{"content": {content}, "tool_calls": [{call}]}}}}]}}'


CALL = {"function": {"name": KEY, "arguments": json.dumps({KEY: 1})}}
ANSWER = {"message": {"content": f"it is {KEY}.", "tool_calls": [CALL]}, "finish_reason": KEY}
ECHOES = [
    (200, json.dumps({"choices": [ANSWER], "usage": {"prompt_tokens": 3, "completion_tokens": 3}})),
    (200, json.dumps({KEY: 1})),
    (400, json.dumps({"error": {KEY: [KEY]}})),
    (500, f"no JSON: {KEY}"),
    (401, json.dumps({"detail": KEY})),
    (302, json.dumps({"detail": KEY})),
    (404, json.dumps({"detail": f"no such model: {KEY}"})),
    (200, completion(f'"{ESCAPED}"')),
    (200, completion(json.dumps(KEY).replace("/", "\\/"))),
    (200, completion("null", f'{{"x": "{ESCAPED}"}}')),
    (200, completion("null", json.dumps({"x": json.dumps({"y": ESCAPED})}))),
    (200, completion(json.dumps(f"see http://h/?key={quote(KEY, safe='')} and {quote(quote(KEY, safe=''))}"))),
    (200, completion(json.dumps(PERCENT).replace("%", "\\u0025"))),
    *((200, completion(json.dumps(f"Authorization: Basic {text}"))) for text in BASIC),
    (200, gzip.compress(completion(f'"{ESCAPED}"').encode())),
    (200, completion(f'"{KEY}"').encode("utf-16")),
    (400, f'{{"error": {{"message": "{ESCAPED}"}}}}'),
    (400, f'{{"error": "{PERCENT}, \\r\\n {ESCAPED}"'),  # no whole JSON
]


@pytest.mark.parametrize(("status", "body"), ECHOES)
def test_a_key_that_the_server_echoes_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], status: int, body: str | bytes
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    headers = {"Location": "/elsewhere", "X-Echo": KEY}
    if isinstance(body, bytes) and body.startswith(b"\x1f\x8b"):
        headers["Content-Encoding"] = "gzip"
    pieces = Pieces(body.encode() if isinstance(body, str) else body)
    with proxy(script=[(status, headers, pieces)]) as server:
        shown = [*_shown(server.url, tmp_path), *capfd.readouterr()]
    assert [sent["Authorization"] for sent in server.headers] == [f"Bearer {KEY}"]
    for text in shown:
        assert not any(form in _plain(text) for form in (KEY, *BASIC, base64.b64encode(KEY.encode()).decode()[:-2]))


class Pieces(httpx2.SyncByteStream):
    """A body in chunks of three bytes, which split the key."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 3):
            yield self._body[start : start + 3]


def _plain(text: str) -> str:
    """``text`` without escapes, percent-encoding and unreadable characters between letters."""
    for _ in range(3):
        text = re.sub(r"\\+u00([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), unquote(text))
    return re.sub(r"\\+x00|\\|\x00|\?(?=.\?)", "", text)


def _shown(url: str, folder: Path) -> Iterator[str]:
    """The answer or error of a request, and the files that a stage writes."""
    with (
        bar(1, "explore", "explorations") as progress,
        metered(config(url, retries=0), True, folder / "requests", progress) as meter,
    ):
        assert meter.endpoint
        try:
            yield repr(meter.endpoint.chat(ask()))
        except (Failed, CoevolveError) as error:
            yield str(error)
        yield repr(vars(meter.endpoint))
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) >= 2
    yield from (file.read_text() for file in files)


@pytest.mark.parametrize(
    ("key", "told", "sent"), [(KEY, f"it is {KEY}", "it is ***"), ("EMPTY", "it is EMPTY", "it is EMPTY")]
)
def test_a_key_that_an_environment_shows_is_not_sent_and_a_placeholder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, told: str, sent: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with proxy(script=[(200, {}, GOOD)]) as server:
        open_endpoint(config(server.url), tmp_path / "log.jsonl").chat(ask(told))
    assert server.bodies[0]["messages"][0]["content"] == sent
    assert sent in (tmp_path / "log.jsonl").read_text()
    assert KEY not in (tmp_path / "log.jsonl").read_text()


def test_no_key_is_sent_if_its_variable_is_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with proxy(script=[(200, {}, GOOD)]) as server:
        open_endpoint(config(server.url, key="NO_SUCH_KEY"), tmp_path / "log.jsonl").chat(ask())
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("bad", ["\n", " ", "\u00e4"])
def test_a_key_that_no_header_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY + bad)
    with pytest.raises(CoevolveError, match="OPENAI_API_KEY holds white space") as caught:
        open_endpoint(config("http://127.0.0.1:9/v1"), tmp_path / "log.jsonl")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:SECRET@host/v1",
        "http://host/v1?api_key=SECRET",
        "http://host/v1#SECRET",
        "http://host:SECRET/v1",
        "http:///SECRET",
        "ftp://SECRET/v1",
        "SECRET",
        "",
    ],
)
def test_a_url_that_could_hold_a_secret_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(CoevolveError, match=r"params\.yaml: endpoint\.url: expected http://HOST/PATH") as caught:
        load_params(edited(tmp_path, endpoint__url=url))
    assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://api.example.com/v1/", "http://a-b.c_d:1/x/~y/%20"])
def test_a_url_without_secrets_is_accepted(tmp_path: Path, url: str) -> None:
    assert load_params(edited(tmp_path, endpoint__url=url)).endpoint.url == url.rstrip("/")
    open_endpoint(config(url), tmp_path / "log.jsonl").close()
