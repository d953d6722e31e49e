"""Other values in a demonstration: the same in instructions, calls and observations, and never in names."""

import re

from coevolve.core.seeding import rng_for
from coevolve.policies.agent_prompt import parse_reply
from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits
from coevolve.stages.base.substitution import drill, lexicon, resembling, substituted
from coevolve.stages.train.reference_tokens import replayed
from tests.unit.stages.base.shop import NAMES, Shop

SHOP = Shop()
FUNCTIONS = [schema["function"] for schema in SHOP.tools()]
KNOWN = {"name": list(NAMES), "amount": [10, 11, 12]}
WORDS = {"find", "pay", "block", "name", "account", "amount"}


def test_a_value_is_replaced_wherever_the_episode_holds_it() -> None:
    told = [one.messages for one in replayed(SHOP, SHOP.tasks("seed"), Limits.of(PolicySection())).values()]
    changed = [substituted(one, KNOWN, WORDS, rng_for("test", n)) for n, one in enumerate(told * 3)]
    spelled, numbers = set(), set()
    for before, after in zip(told * 3, changed, strict=True):
        calls = [parse_reply(one["content"])[0] for one in after if one["role"] == "assistant"]
        assert [call.name for one in calls for call in one] == [
            call.name for one in before if one["role"] == "assistant" for call in parse_reply(one["content"])[0]
        ]
        name = calls[0][0].arguments["name"]
        assert name in after[0]["content"] and name in after[2]["content"]
        spelled.add(name)
        if len(calls) == 3:
            account, amount = (calls[1][0].arguments[key] for key in ("account", "amount"))
            assert isinstance(account, int) and re.search(rf"\b{account}\b", after[2]["content"])
            assert re.search(rf"\b{amount}\b", after[0]["content"])
            numbers.add(account)
    assert set(NAMES) & spelled and len(spelled - set(NAMES)) > 10 and len(numbers) > 10


def test_a_value_that_is_a_name_or_part_of_another_stays() -> None:
    said = [
        {"role": "user", "content": "pay 5 of 1.5 to amount, not 55"},
        {
            "role": "assistant",
            "content": '<tool_call>{"name": "pay", "arguments": {"to": "amount", "n": 5}}</tool_call>',
        },
    ]
    after = [substituted(said, {}, WORDS, rng_for("test", n)) for n in range(20)]
    assert all(re.fullmatch(r"pay \d+ of 1\.5 to amount, not 55", one[0]["content"]) for one in after)
    assert len({one[0]["content"] for one in after}) > 3


def test_random_values_keep_their_shape() -> None:
    rng = rng_for("shape")
    for text, shape in (
        ("T-204", r"[A-Z]+-\d{3}"),
        ("Ada Berg", r"[A-Z][a-z]+ [A-Z][a-z]+"),
        ("2026-03-09", r"\d{4}-\d\d-\d\d"),
    ):
        made = {resembling(text, rng) for _ in range(20)}
        assert len(made) > 15 and all(re.fullmatch(shape, one) for one in made)
    assert {len(resembling("240", rng)) for _ in range(40)} == {2, 3, 4}


def test_a_tool_without_a_reference_has_drills() -> None:
    [block] = [one for one in FUNCTIONS if one["name"] == "block"]
    for number in range(10):
        asked, answered = drill(block, {"account": [301]}, rng_for("test", number))
        [call] = parse_reply(answered["content"])[0]
        assert (
            call.name == "block" and type(call.arguments["account"]) is int and type(call.arguments["urgent"]) is bool
        )
        assert (
            asked["content"].startswith("block an account, account ")
            and str(call.arguments["account"]) in asked["content"]
        )
    matrix = {
        "name": "m",
        "parameters": {"properties": {"rows": {"type": "array", "minItems": 1}}, "required": ["rows"]},
    }
    assert drill(matrix, {}, rng_for("test")) == []


def test_names_and_common_words_are_whole_and_rare_words_are_spelled() -> None:
    texts = [[{"role": "user", "content": f"pay {name} now"}] for name in NAMES]
    words = lexicon(FUNCTIONS, texts)
    assert {"find", "account", "pay", "now", "euros"} <= set(words) and not {"Ada", "Weiss"} & set(words)
