"""Replies as data: JSON that follows a contract. A bad reply is retried once with the error, then dropped and counted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coevolve.core.untrusted import sound
from coevolve.endpoint.client import Endpoint
from coevolve.endpoint.messages import Ask

Contract = TypeVar("Contract", bound=BaseModel)
REPAIRS = 1  # further requests after a reply that breaks its contract


class Broken(Exception):
    """No reply followed the contract."""


def ask_json(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, Any]],
    contract: type[Contract],
    seed: int,
    counts: Counter[str],
    check: Any = None,
) -> Contract:
    """A reply that follows ``contract``. ``check`` may raise ValueError for rules that the schema cannot express.

    Counts ``repaired`` and ``dropped`` replies. Raises Broken, and what ``Endpoint.chat`` raises.
    """
    said = [dict(message) for message in messages]
    schema = contract.model_json_schema()
    for attempt in range(REPAIRS + 1):
        config = endpoint.config
        answer = endpoint.chat(Ask(said, config.temperature, config.reply_tokens, seed + attempt, schema=schema))
        try:
            found = contract.model_validate(_json(answer.content))
            if check is not None:
                check(found)
            counts["repaired"] += attempt
            return found
        except ValueError as error:
            reason = _reason(error)
        said += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": f"That breaks the contract: {reason}. Reply with the JSON object alone."},
        ]
    counts["dropped"] += 1
    raise Broken(reason)


def _json(text: str) -> Any:
    """The JSON object in a reply, without a fence, thoughts or words around it."""
    text = text.rpartition("</think>")[2]
    start = text.find("{")
    if start < 0:
        raise ValueError("there is no JSON object")
    try:
        return sound(json.JSONDecoder().raw_decode(text, start)[0])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from None


def _reason(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the reply"
        return f"{place}: {first['msg']}"
    return str(error)
