"""The rule for a refused call in messages that do not record it: a protocol in its answer says so, never its looks."""

import json
import re
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

HEAD, MOST = 300, 100_000  # characters that may name an error; most characters of an object that is one
ERROR = re.compile(
    r"(?i:error:"  # coevolve, LangGraph
    r"|error (?:when )?(?:executing|calling|running) tool\b"  # FastMCP, verl
    r"|(?:input|output) validation error:|unknown tool:"  # the SDK of MCP
    r"|\S+ is not a valid tool, try one of"  # LangChain
    r"|traceback \(most recent call last\):)"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception):"  # an exception's type
)


def refused(text: str, message: Mapping[str, Any] | None = None) -> bool:
    """Whether the environment refused the call that got the answer ``text``.

    ``message`` decides, if it has `isError`, `is_error`, or the `status` error or success. Otherwise ``text`` decides:
    it begins with the words of a known protocol (``ERROR``), or it is an object with `isError` or `is_error`, or with
    only the key `error`, in JSON or as Python's `str` of a dict, which TRL writes.
    """
    facts = message or {}
    for flag in (facts.get("isError"), facts.get("is_error")):
        if isinstance(flag, bool):
            return flag
    if facts.get("status") in ("error", "success"):
        return bool(facts["status"] == "error")
    text = text.strip()
    if ERROR.match(text[:HEAD]):
        return True
    value = None
    if text.startswith("{") and len(text) <= MOST:
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = literal_eval(text) if text.startswith("{'error':") else json.loads(text)
    if not isinstance(value, dict):
        return False
    return (
        value.get("isError") is True or value.get("is_error") is True or (len(value) == 1 and bool(value.get("error")))
    )
