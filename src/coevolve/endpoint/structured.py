"""Replies as data: JSON that follows a contract. A bad reply is retried once with the error, then dropped and counted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coevolve.core.untrusted import sound
from coevolve.endpoint.client import Endpoint
from coevolve.endpoint.messages import SILENT, Ask

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
        text = answer.content.rpartition("</think>")[2]
        try:  # without a fence or words around the object
            value, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
            found = contract.model_validate(sound(value))
            if check is not None:
                check(found)
            counts["repaired"] += attempt
            return found
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'the reply'}: {first['msg']}"
        except (ValueError, RecursionError) as error:
            reason = f"there is no JSON object ({error})" if isinstance(error, json.JSONDecodeError) else str(error)
        said += [
            {"role": "assistant", "content": answer.content or SILENT},
            {"role": "user", "content": f"That breaks the contract: {reason}. Reply with the JSON object alone."},
        ]
    counts["dropped"] += 1
    raise Broken(reason)
