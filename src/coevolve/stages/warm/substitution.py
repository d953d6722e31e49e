"""Put other values in the places of a demonstration's values, so that a policy learns to copy values instead of knowing them."""

import json
import random
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from coevolve.core.task import ToolCall
from coevolve.environments.chains import data_of, leaves, observed
from coevolve.environments.tool_schema import to_try, tool_schema
from coevolve.policies.call_format import parse_reply, render_call

Messages = list[dict[str, Any]]
Values = Mapping[str, Sequence[Any]]  # the name of an argument → values that references give it

WORDS = 4000  # most words with a token of their own
UNCHANGED = 0.2  # share of demonstrations that keep all their values: a world may be the same in all tasks
KEPT, KNOWN = 0.1, 0.4  # a value stays below the first share, and becomes another known value below the second
SPELLED = 0.4  # share of random words that are letters; the others are known words
WORD = re.compile(r"[A-Za-z]+|[^\w\s](?:[^\w\n]*[^\w\s])?")  # a word, or signs and the spaces between them
SHAPE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
ALONE = r"(?<!\w)(?<!\d\.)({})(?=s?(?!\w|\.\d))"  # a value that is no part of another, or its plural


def lexicon(functions: Sequence[Mapping[str, Any]], demonstrations: Iterable[Messages]) -> list[str]:
    """The names of tools and arguments, the words of descriptions and demonstrations, and pairs of letters that spell others.

    Of the words, only the ``WORDS`` most frequent.
    """
    names = [name for one in functions for name in (one["name"], *tool_schema(one).flat()["properties"])]
    texts = [message["content"] for messages in demonstrations for message in messages]
    texts += [str(one.get("description", "")) for one in functions]
    counts = Counter(word for text in texts for word in WORD.findall(text))
    words = sorted(sorted(counts, key=lambda word: (-counts[word], word))[:WORDS])
    return list(dict.fromkeys([*names, *words, *map("".join, product(string.ascii_lowercase, repeat=2))]))


def substituted(
    messages: Messages, known: Values, names: Iterable[str], words: Sequence[str], rng: random.Random
) -> Messages:
    """``messages`` with other values in the places of most, the same in instructions, calls and observations.

    A value is an argument that the instruction or an observation before the call holds, or a part of an observation that an instruction holds. It is
    none of the ``names`` of tools and arguments. Another value is one of those ``known``, or a random one of the same shape.
    """
    said = "\n".join(one["content"] for one in messages if one["role"] == "user")
    results = (leaf for one in messages if one["role"] == "tool" for leaf in observed(one["content"]))
    candidates = [(str(value), key, said) for key, value in _values(results)]
    candidates += [(str(value), key, before) for key, value, before in _given(messages)]
    found = {
        value: key
        for value, key, text in candidates
        if value not in names and not set(value) & {'"', "\\"} and re.search(ALONE.format(re.escape(value)), text)
    }
    if not found or rng.random() < UNCHANGED:
        return messages
    messages = [
        {**one, "content": _shuffled(one["content"], rng)} if one["role"] == "tool" else one for one in messages
    ]
    others: dict[str, str] = {}
    for value, key in found.items():
        drawn, pool = rng.random(), [str(one) for one in known.get(key, ()) if str(one) not in found]
        new = value if drawn < KEPT else rng.choice(pool) if drawn < KNOWN and pool else resembling(value, words, rng)
        others[value] = value if new in others.values() else new
    longest = sorted(others, key=len, reverse=True)
    pattern = re.compile(ALONE.format("|".join(map(re.escape, longest))))
    return [{**one, "content": pattern.sub(lambda match: others[match[1]], one["content"])} for one in messages]


def _shuffled(observation: str, rng: random.Random) -> str:
    """``observation`` with another order of its records, so that the policy learns to find a record by what it holds."""
    data = data_of(observation)
    if not isinstance(data, list) or json.dumps(data, ensure_ascii=False) != observation:
        return observation
    return json.dumps(rng.sample(data, len(data)), ensure_ascii=False)


def _given(messages: Messages) -> Iterator[tuple[str, Any, str]]:
    """The values of calls, with the instructions and observations before the call: an answer that repeats a value gives none away."""
    before = ""
    for message in messages:
        if message["role"] != "assistant":
            before += message["content"] + "\n"
            continue
        for call in parse_reply(message["content"])[0]:
            yield from ((key, value, before) for key, value in _values(leaves(call.arguments)))


def _values(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    return (leaf for leaf in found if type(leaf[1]) in (str, int, float) and str(leaf[1]).strip())


def resembling(text: str, words: Sequence[str], rng: random.Random) -> str:
    """A random text of the same shape: letters for letters, and digits for digits. A number may get another length."""
    if re.fullmatch(r"[1-9]\d*", text):
        size = max(len(text) + rng.choice((-1, 0, 0, 1)), 1)
        return str(rng.randrange(10 ** (size - 1), 10**size))

    def other(match: re.Match[str]) -> str:
        part = match[0]
        if part.isdigit():
            return "".join(rng.choices(string.digits, k=len(part)))
        letters = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9)))
        letters = letters if rng.random() < SPELLED else rng.choice(words)
        return letters if part.islower() else letters.upper() if part.isupper() else letters.capitalize()

    return SHAPE.sub(other, text)


def drill(function: Mapping[str, Any], known: Values, words: Sequence[str], rng: random.Random) -> Messages:
    """A request for one call in the words of the tool's description and arguments, and the call. Empty if no value fits."""
    schema, given = tool_schema(function), {}
    for key, part in (whole := schema.flat())["properties"].items():
        flat = schema.flat(part)
        if options := schema.fitting([*known.get(key, ()), *to_try(flat), "Some words"], part):
            value = rng.choice(options)
            fixed = "enum" in flat or isinstance(value, bool) or rng.random() < KNOWN
            given[key] = value if fixed else type(value)(resembling(str(value), words, rng))
        elif key in whole["required"]:
            return []
    asked = re.split(r"[.;:]", function.get("description") or function["name"].replace("_", " "))[0]
    request = ", ".join(
        [asked[:1].lower() + asked[1:], *(f"{key.replace('_', ' ')} {value}" for key, value in given.items())]
    )
    call = render_call(ToolCall(function["name"], given))
    return [{"role": "user", "content": request}, {"role": "assistant", "content": call}]
