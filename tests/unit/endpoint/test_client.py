"""A log returns its answers for any other content of its file."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.endpoint.client import RequestLog
from coevolve.endpoint.messages import Answer, RawCall
from tests.integration.endpoint.test_transport import VALUES

ANSWER = Answer("yes", [RawCall("f", "{}")], "stop", 3, 1)
REPLY = {"content": "a", "calls": [], "finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": 1}
FOREIGN = (
    st.binary(max_size=40)
    | VALUES.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries({"key": VALUES, "request": VALUES, "reply": VALUES}).map(lambda v: json.dumps(v).encode())
    | st.dictionaries(st.sampled_from(sorted(REPLY)), VALUES, min_size=1).map(
        lambda changes: json.dumps({"key": "k", "request": {}, "reply": {**REPLY, **changes}}).encode()
    )
    | st.sampled_from([b"[" * 100_000, b"\xff\xfe", b"9" * 5000, "\u2028\x0b\x85".encode()])
)


@settings(max_examples=100)
@given(st.lists(FOREIGN, max_size=4), st.lists(FOREIGN, max_size=4))
def test_foreign_lines_are_skipped_and_stop_a_replay_in_one_line(before: list[bytes], after: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.jsonl"
        path.write_bytes(b"\n".join(before))
        RequestLog(path).put("mine", {"messages": []}, ANSWER)
        with path.open("ab") as file:
            file.write(b"\n".join(after))
        log = RequestLog(path)
        assert log.get("mine") == ANSWER
        found = log.get("k")
        assert found is None or min(found.prompt_tokens, found.completion_tokens) >= 0
        try:
            RequestLog(path, writable=False)
        except CoevolveError as error:
            assert str(error).startswith(f"{path}:") and "\n" not in str(error)


def test_unusable_log_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "log.jsonl"):
        with pytest.raises(CoevolveError, match="expected a request log"):
            RequestLog(path)
    log = RequestLog(tmp_path / "gone" / "log.jsonl")
    (tmp_path / "gone").rmdir()
    with pytest.raises(CoevolveError, match=r"log\.jsonl: cannot be written \(No such file or directory\); make room"):
        log.put("k", {}, ANSWER)
