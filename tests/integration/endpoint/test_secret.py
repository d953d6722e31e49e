"""The key is in no error, no log and no answer, however a server spells it."""

import html
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.progress import bar
from coevolve.endpoint.client import Failed, open_endpoint
from coevolve.endpoint.spending import metered
from coevolve.stages.schema import load as load_params
from tests.integration.endpoint.proxy import proxy
from tests.integration.endpoint.test_client import GOOD, ask, config
from tests.unit.stages.test_schema import edited

SIGN = [chr(code) for code in range(0x21, 0x7F)]
KEYS = st.text(SIGN, min_size=12, max_size=40).map(lambda text: f"sk-{text}")
# how a server may write one sign of the key into the text of a JSON string
WAYS = (
    lambda sign: json.dumps(sign)[1:-1],
    lambda sign: f"\\u{ord(sign):04x}",
    lambda sign: f"\\u{ord(sign):04X}",
    lambda sign: f"\\\\u{ord(sign):04x}",
    lambda sign: f"%{ord(sign):02X}",
    lambda sign: f"%25{ord(sign):02x}",
    lambda sign: f"&#{ord(sign)};",
)
CALL = '{"function": {"name": "SPELT", "arguments": "{\\"SPELT\\": 1}"}}'
SAID = '{"message": {"content": "it is SPELT.", "tool_calls": [' + CALL + ']}, "finish_reason": "SPELT"}'
PLACES = [
    (200, '{"choices": [' + SAID + '], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}'),
    (200, '{"SPELT": 1}'),
    (400, '{"error": {"message": "bad key SPELT"}}'),
    (400, '{"error": {"SPELT": ["SPELT"]}}'),
    (500, "no JSON: SPELT"),
    (401, '{"detail": "SPELT"}'),
    (302, '{"detail": "SPELT"}'),
    (404, '{"detail": "no such model: SPELT"}'),
]


def readings(text: str) -> Iterator[str]:
    """``text`` as it is, and with what Python's own libraries make of its escapes."""
    for _ in range(5):
        yield text
        yield text.replace("\\", "")
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
        text = html.unescape(unquote(text))


def test_a_key_that_is_echoed_is_told_to_nobody() -> None:
    with proxy() as server:

        @settings(max_examples=100, deadline=None)
        @example("sk-00000000}000", PLACES[0], [WAYS[3], WAYS[0]])  # a brace that belongs to no escape
        @given(KEYS, st.sampled_from(PLACES), st.lists(st.sampled_from(WAYS), min_size=1, max_size=7))
        def told_to_nobody(key: str, place: tuple[int, str], ways: list[Callable[[str], str]]) -> None:
            spelt = "".join(ways[number % len(ways)](sign) for number, sign in enumerate(key))
            server.script[:] = [(place[0], {"Location": "/elsewhere", "X-Echo": key}, place[1].replace("SPELT", spelt))]
            server.headers.clear()
            with tempfile.TemporaryDirectory() as name:
                heard = hearing(server.url, key, Path(name))
            assert [one["Authorization"] for one in server.headers] == [f"Bearer {key}"]
            for text in heard:
                assert not any(key in reading or key.replace("\\", "") in reading for reading in readings(text)), text

        told_to_nobody()


def hearing(url: str, key: str, folder: Path) -> list[str]:
    """All that is told by a stage that asks an endpoint: its files, what it prints, answers and errors."""
    said, told = StringIO(), []
    with (
        patch.dict(os.environ, {"OPENAI_API_KEY": key, "DVC_ROOT": str(folder)}),
        redirect_stdout(said),
        redirect_stderr(said),
        bar(1, "explore", "explorations") as progress,
        metered(config(url, retries=0), True, folder / "requests", progress) as meter,
    ):
        assert meter.endpoint
        try:
            answer = meter.endpoint.chat(ask())
            told += [
                str(answer),
                answer.content,
                *(text for call in answer.calls for text in (call.name, call.arguments)),
            ]
        except (Failed, CoevolveError) as error:
            told.append(str(error))
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) >= 2
    return [*told, str(meter), said.getvalue(), *(file.read_text() for file in files)]


def test_what_an_environment_answered_is_cleaned_before_it_is_asked(tmp_path: Path) -> None:
    key = "sk-environments-see-this-one"
    with patch.dict(os.environ, {"OPENAI_API_KEY": key}), proxy(script=[(200, {}, GOOD)]) as server:
        open_endpoint(config(server.url), tmp_path / "log.jsonl").chat(ask(f"OPENAI_API_KEY={key}"))
        assert server.bodies[0]["messages"][0]["content"] == "OPENAI_API_KEY=***"
        assert key not in (tmp_path / "log.jsonl").read_text()


def test_a_placeholder_is_no_secret(tmp_path: Path) -> None:
    with patch.dict(os.environ, {"OPENAI_API_KEY": "EMPTY"}), proxy(script=[(200, {}, GOOD)]) as server:
        good = open_endpoint(config(server.url), tmp_path / "log.jsonl").chat(ask("the list is EMPTY"))
        assert good.content == "yes" and "EMPTY" in (tmp_path / "log.jsonl").read_text()


@pytest.mark.parametrize("bad", ["\n", " ", "\t", "\x01", "\x7f", "\u00e4", "\u200b", "\u2028", "\udc80"])
@pytest.mark.parametrize("place", [0, 9, 18])
def test_a_key_that_no_header_can_hold_is_refused_in_one_line(tmp_path: Path, bad: str, place: int) -> None:
    key = "sk-SECRETSECRETSEC"
    key = key[:place] + bad + key[place:]
    with patch.dict(os.environ, {"OPENAI_API_KEY": key}), pytest.raises(CoevolveError) as caught:
        open_endpoint(config("http://127.0.0.1:9/v1"), tmp_path / "log.jsonl")
    assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("OPENAI_API_KEY holds white space")


URLS = [
    "http://user:SECRET@host/v1",
    "http://SECRET@host/v1",
    "http://host/v1?api_key=SECRET",
    "http://host?SECRET",
    "http://host/v1#SECRET",
    "http://SECRET host/v1",
    "http://host:SECRET/v1",
    "http://host:99999/SECRET",
    "http://host:0/SECRET",
    "http://[::SECRET/v1",
    "http:///SECRET",
    "http://SECRET..x/v1",
    "http://SECR\u00c9T/v1",
    "http://host/SECRET\n",
    "http://host/\x00SECRET",
    "http://" + "SECRET" * 20 + "/v1",
    "ftp://SECRET/v1",
    "SECRET",
    "",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_is_none_or_that_could_hold_a_secret_is_one_line_that_does_not_show_it(
    tmp_path: Path, url: str
) -> None:
    if "\x00" not in url:
        with pytest.raises(CoevolveError, match=r"params\.yaml: endpoint\.url: expected http://HOST/PATH") as caught:
            load_params(edited(tmp_path, endpoint__url=url))
        assert "SECR" not in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(CoevolveError, match=r"endpoint\.url: expected http://HOST/PATH") as caught:
        open_endpoint(config(url), tmp_path / "log.jsonl")
    assert "SECR" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://api.example.com/v1/", "http://a-b.c_d:1/x/~y/%20"])
def test_a_url_that_is_one(tmp_path: Path, url: str) -> None:
    assert load_params(edited(tmp_path, endpoint__url=url)).endpoint.url == url
    open_endpoint(config(url), tmp_path / "log.jsonl").close()
