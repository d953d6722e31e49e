"""The key is in no error, no log, no file and no answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.progress import bar
from coevolve.endpoint.client import Failed, open_endpoint
from coevolve.endpoint.spending import metered
from coevolve.stages.schema import load as load_params
from tests.integration.endpoint.proxy import proxy
from tests.integration.endpoint.test_client import GOOD, ask, config
from tests.unit.stages.test_schema import edited

KEY = "sk-this-is-the-key-0123456789"
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
]


@pytest.mark.parametrize(("status", "body"), ECHOES)
def test_a_key_that_the_server_echoes_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], status: int, body: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    headers = {"Location": "/elsewhere", "X-Echo": KEY}
    with proxy(script=[(status, headers, body)]) as server:
        shown = [*_shown(server.url, tmp_path), *capfd.readouterr()]
    assert [sent["Authorization"] for sent in server.headers] == [f"Bearer {KEY}"]
    for text in shown:
        assert KEY not in text


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
