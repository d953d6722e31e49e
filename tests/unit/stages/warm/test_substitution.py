"""The demonstrations of a user's environment: other values in them, and the tasks that nobody imitates."""

import json
import re
from collections import Counter

from coevolve.core.seeding import rng_for
from coevolve.policies.call_format import parse_reply
from coevolve.policies.config import PolicySection
from coevolve.policies.tokenizer import build
from coevolve.rollout import Limits
from coevolve.stages.train.reference_tokens import replayed
from coevolve.stages.warm.config import Warm
from coevolve.stages.warm.new_words import varied
from coevolve.stages.warm.substitution import drill, lexicon, resembling, substituted
from coevolve.stages.warm.warm_start import demonstrations, divided
from tests.unit.stages.warm.shop import NAMES, Shop

SHOP = Shop()
FUNCTIONS = [schema["function"] for schema in SHOP.tools()]
KNOWN = {"name": list(NAMES), "amount": [10, 11, 12]}
NAMED = {"find", "pay", "block", "name", "account", "amount"}
WORDS = ["orange", "lock", "quote"]


def test_a_value_is_replaced_wherever_the_episode_holds_it() -> None:
    told = [one.messages for one in replayed(SHOP, SHOP.tasks("seed"), Limits.of(PolicySection())).values()]
    changed = [substituted(one, KNOWN, NAMED, WORDS, rng_for("test", n)) for n, one in enumerate(told * 3)]
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
    after = [substituted(said, {}, NAMED, WORDS, rng_for("test", n)) for n in range(20)]
    assert all(re.fullmatch(r"pay \d+ of 1\.5 to amount, not 55", one[0]["content"]) for one in after)
    assert len({one[0]["content"] for one in after}) > 3


def test_random_values_keep_their_shape() -> None:
    rng = rng_for("shape")
    for text, shape in (
        ("T-204", r"[A-Z]+-\d{3}"),
        ("Ada Berg", r"[A-Z][a-z]+ [A-Z][a-z]+"),
        ("2026-03-09", r"\d{4}-\d\d-\d\d"),
    ):
        made = {resembling(text, WORDS, rng) for _ in range(20)}
        assert len(made) > 5 and all(re.fullmatch(shape, one) for one in made)
    assert {len(resembling("240", WORDS, rng)) for _ in range(40)} == {2, 3, 4}


def test_a_tool_without_a_reference_has_drills() -> None:
    [block] = [one for one in FUNCTIONS if one["name"] == "block"]
    for number in range(10):
        asked, answered = drill(block, {"account": [301]}, WORDS, rng_for("test", number))
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
    assert drill(matrix, {}, WORDS, rng_for("test")) == []


def test_names_and_words_are_whole_and_unseen_words_are_spelled_by_pairs_of_letters() -> None:
    words = lexicon(FUNCTIONS, [[{"role": "user", "content": f"pay {name} now"}] for name in NAMES])
    assert {"find", "account", "pay", "now", "euros", "Ada", "Weiss"} <= set(words)
    assert build(words, []).tokenize("warranty") == ["wa", "rr", "an", "ty"]


CALL = '<tool_call>{"name": "set", "arguments": {"job": 7, "state": "waiting", "part": "tyre"}}</tool_call>'


def test_a_value_that_only_a_later_answer_repeats_stays_and_a_plural_changes() -> None:
    said = [
        {"role": "user", "content": "job 7 has to wait for tyres"},
        {"role": "assistant", "content": CALL},
        {"role": "tool", "content": "job 7 is waiting"},
    ]
    after = [substituted(said, {}, set(), WORDS, rng_for("test", n)) for n in range(20)]
    assert all('"state": "waiting"' in one[1]["content"] and one[2]["content"].endswith("waiting") for one in after)
    assert (
        len({one[0]["content"] for one in after if re.fullmatch(r"job \d+ has to wait for \w+s", one[0]["content"])})
        > 5
    )


def test_records_of_an_observation_change_their_order() -> None:
    said = [
        {"role": "user", "content": "set the waiting one to tyre"},
        {"role": "tool", "content": '[{"job": 5, "state": "done"}, {"job": 7, "state": "waiting"}]'},
        {"role": "assistant", "content": CALL},
    ]
    for number in range(20):
        asked, shown, called = substituted(said, {}, set(), WORDS, rng_for("test", number))
        [meant] = [one for one in json.loads(shown["content"]) if one["state"] in asked["content"].split()]
        assert parse_reply(called["content"])[0][0].arguments["job"] == meant["job"]
    firsts = {
        substituted(said, {}, set(), WORDS, rng_for("test", n))[1]["content"].count('"done"}, ') for n in range(9)
    }
    assert firsts == {0, 1}


def test_every_kind_of_task_is_imitated_and_held_out() -> None:
    imitated, held = divided(Shop(), "seed", 256)
    assert [len(imitated), len(held)] == [19, 5] and not {t.task_id for t in imitated} & {t.task_id for t in held}
    assert set(Counter(tuple(task.tools) for task in held)) == {("find",), ("find", "pay")}
    assert divided(Shop(), "seed", 256) == (imitated, held)


def test_single_task_is_in_both_parts_and_without_a_measure_all_are_imitated() -> None:
    assert [len(part) for part in divided(Shop(), "seed", 1)] == [1, 1]
    assert [len(part) for part in divided(Shop(), "seed", 256, hold=False)] == [24, 0]


def test_variants_call_every_tool_and_keep_few_values() -> None:
    examples = demonstrations(Warm(), SHOP, Limits.of(PolicySection()))
    drawn = varied(examples, list(SHOP.tools()), 300, 0)
    assert drawn == varied(examples, list(SHOP.tools()), 300, 0) != varied(examples, list(SHOP.tools()), 300, 1)
    replies = [one["content"] for episode, _ in drawn for one in episode.messages if one["role"] == "assistant"]
    calls = [call for reply in replies for call in parse_reply(reply)[0]]
    assert {call.name for call in calls} == {"find", "pay", "block"}, "no reference calls block"
    names = [call.arguments["name"] for call in calls if call.name == "find"]
    assert set(NAMES) < set(names) and len(set(names)) > 50
