"""Put other values in the places of a demonstration's values, so that a policy learns to copy values instead of knowing them."""

import ast
import json
import random
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coevolve.core.task import ToolCall
from coevolve.environments.chains import leaves
from coevolve.environments.tool_schema import ToolSchema, to_try, tool_schema
from coevolve.policies.agent_prompt import parse_reply, render_call

Messages = list[dict[str, Any]]
Values = dict[str, list[Any]]  # the name of an argument → values that references give it

COMMON = 3  # demonstrations that must hold a word for it to be one token
KEPT, KNOWN = 0.1, 0.4  # a value stays below the first share, and becomes another known value below the second
WORD = re.compile(r"[A-Za-z]+|[^\w\s](?:[^\w\n]*[^\w\s])?")  # a word, or signs and the spaces between them
SHAPE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def lexicon(functions: Sequence[Mapping[str, Any]], demonstrations: Iterable[Messages]) -> list[str]:
    """The names of tools and arguments, and the words that several demonstrations hold. Other words are spelled."""
    names = [name for one in functions for name in (one["name"], *_properties(one))]
    spoken = [str(one.get("description", "")) for one in functions] * COMMON  # a drill asks for a tool in its own words
    texts = ["\n".join(message["content"] for message in messages) for messages in demonstrations]
    counts = Counter(
        word
        for text in [*texts, *spoken, *(name.replace("_", " ") for name in names * COMMON)]
        for word in set(WORD.findall(text))
    )
    return [*names, *(word for word, count in sorted(counts.items()) if count >= COMMON)]


def _properties(function: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tool_schema(function).flat()["properties"]
    return found


def arguments(demonstrations: Iterable[Messages]) -> Values:
    """The different values of each argument."""
    values: Values = {}
    for messages in demonstrations:
        for key, value in _arguments(messages):
            if value not in values.setdefault(key, []):
                values[key].append(value)
    return values


def _arguments(messages: Messages) -> Iterator[tuple[str, Any]]:
    """The texts and numbers in the arguments of the calls of a demonstration, each with its key."""
    for message in messages:
        for call in parse_reply(message["content"])[0] if message["role"] == "assistant" else ():
            yield from ((key, value) for key, value in leaves(call.arguments) if _is_value(value))


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and bool(str(value).strip())


def substituted(messages: Messages, known: Values, rng: random.Random) -> Messages:
    """``messages`` with other values in the places of some, the same in instructions, calls and observations.

    A value is an argument that an instruction or observation holds, or a part of an observation that an instruction holds. Another
    value is one that references give the same argument, or a random one of the same shape.
    """
    said = "\n".join(message["content"] for message in messages if message["role"] == "user")
    seen = "\n".join(message["content"] for message in messages if message["role"] == "tool")
    found = {str(value): key for key, value in _arguments(messages) if _holds(said, value) or _holds(seen, value)}
    shown = (leaf for message in messages if message["role"] == "tool" for leaf in leaves(_read(message["content"])))
    found = {str(value): key for key, value in shown if _is_value(value) and _holds(said, value)} | found
    others: dict[str, str] = {}
    for text, key in found.items():
        drawn = rng.random()
        pool = [str(value) for value in known.get(key, ()) if not _holds(said, value) and not _holds(seen, value)]
        new = text if drawn < KEPT else rng.choice(pool) if drawn < KNOWN and pool else resembling(text, rng)
        others[text] = text if new in others.values() else new
    if not others:
        return messages
    longest = sorted(others, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?<!\d\.)({'|'.join(map(re.escape, longest))})(?!\w|\.\d)")

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [changed(inner) for inner in value]
        if isinstance(value, str):
            return pattern.sub(lambda match: others[match[1]], value)
        return type(value)(others[str(value)]) if _is_value(value) and str(value) in others else value

    written = []
    for message in messages:
        calls = parse_reply(message["content"])[0] if message["role"] == "assistant" else []
        made = "\n".join(render_call(ToolCall(call.name, changed(call.arguments))) for call in calls)
        written.append({**message, "content": made or changed(message["content"])})
    return written


def _holds(text: str, value: Any) -> bool:
    return re.search(rf"(?<!\w)(?<!\d\.){re.escape(str(value))}(?!\w|\.\d)", text) is not None


def _read(observation: str) -> Any:
    """The JSON value or Python literal of an observation; an empty list for plain text."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(observation)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return []


def resembling(text: str, rng: random.Random) -> str:
    """A random text of the same shape: letters for letters, and digits for digits. A number may get another length."""
    if re.fullmatch(r"\d+", text):
        size = max(len(text) + rng.choice((-1, 0, 0, 1)), 1)
        return str(rng.randrange(10 ** (size - 1), 10**size))

    def other(match: re.Match[str]) -> str:
        part = match[0]
        if part.isdigit():
            return "".join(rng.choice(string.digits) for _ in part)
        letters = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9)))
        return (
            letters if part.islower() else letters.upper() if part.isupper() and len(part) > 1 else letters.capitalize()
        )

    return SHAPE.sub(other, text)


def drill(function: Mapping[str, Any], known: Values, rng: random.Random) -> Messages:
    """A request for one call in the words of the tool's description and arguments, and the call."""
    schema = tool_schema(function)
    flat = schema.flat(None, rng)
    given = {
        key: _value(schema, key, part, known, rng)
        for key, part in flat["properties"].items()
        if key in flat["required"] or rng.random() < 0.5
    }
    asked = str(function.get("description") or function["name"].replace("_", " ")).split(".")[0].split(";")[0]
    words = [f"{key.replace('_', ' ')} {value}" for key, value in leaves(given)]
    request = ", ".join([asked[:1].lower() + asked[1:], *words])
    return [
        {"role": "user", "content": request},
        {"role": "assistant", "content": render_call(ToolCall(function["name"], given))},
    ]


def _value(schema: ToolSchema, key: str, part: Any, known: Values, rng: random.Random) -> Any:
    flat = schema.flat(part, rng)
    if flat.get("type") == "array":
        return [_value(schema, key, flat.get("items", {}), known, rng)]
    if flat["properties"]:
        return {name: _value(schema, name, inner, known, rng) for name, inner in flat["properties"].items()}
    options = schema.fitting([*known.get(key, ()), *to_try(flat)], part) or ["Some words"]
    value = rng.choice(options)
    if "enum" in flat or isinstance(value, bool) or rng.random() < KNOWN:
        return value
    return type(value)(resembling(str(value), rng))
