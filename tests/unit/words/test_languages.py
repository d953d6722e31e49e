"""New tasks speak the language of the training tasks, or are not made."""

from functools import cache

import pytest

from coevolve.core.mentions import words_of
from coevolve.core.records import Candidate, Gate
from coevolve.core.task import Task, ToolCall
from coevolve.environments.knowledge import learn
from coevolve.environments.methods import MethodEnvironment
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize, wording
from coevolve.stages.verify.gates import environment_gates
from coevolve.words.learned_phrases import learned_phrases, phrases_of
from tests.unit.environments.lamps import LANGUAGES, Lamps
from tests.unit.environments.parcels import NAMES, Parcels
from tests.unit.stages.train.small import PARAMS

JOINED = ("english", "german", "french", "arabic", "chinese", "japanese", "hindi", "russian", "quoted", "joints")
ALONE = ("thai", "turkish", "single")  # no joint can be learned
CONFIG = PARAMS.explore.model_copy(update={"explorations": 160, "tries": 6})


lamps = cache(Lamps)
parcels = cache(Parcels)


@cache
def made(world: MethodEnvironment) -> list[Candidate]:
    tasks = world.tasks("seed")
    wanted = requests(world, tasks, [], [], CONFIG, 0, 0)
    found = explore(ScriptedExplorer(world, learn(world, tasks), CONFIG), wanted, lambda count: None)
    return synthesize(ScriptedSynthesizer(world, tasks, 0), found, 120, lambda count: None)


def gate_of(world: MethodEnvironment, task: Task, words: str, rules: str = "values") -> Gate:
    """The first gate that ``task`` with other ``words`` fails, or else the gate `words_match`."""
    spoken = Task.create(world.name, "x", [words], task.world, task.reference)
    gates = list(environment_gates(world, Candidate("c", spoken, []), rules))
    return next((gate for gate in gates if gate.passed is False), gates[-1])


@pytest.mark.parametrize("language", [*JOINED, *ALONE])
def test_new_tasks_have_only_words_of_training_tasks(language: str) -> None:
    world, words = lamps(language), set(words_of(str(LANGUAGES[language])))
    words |= {f"و{word}" for word in words if language == "arabic"}  # its word for "and" has no blank behind it
    assert len(made(world)) >= 8
    for one in made(world):
        said = words_of(one.task.turns[0])
        assert set(said) <= words | ({"and", "then"} if language in ("english", "joints") else set()), said
        rooms = [call.arguments["room"] for call in one.task.calls]
        forms = dict(
            zip(LANGUAGES[language].rooms, LANGUAGES[language].forms or LANGUAGES[language].rooms, strict=True)
        )
        assert all(forms[room] in one.task.turns[0] for room in rooms), one.task.turns
        assert gate_of(world, one.task, one.task.turns[0]).passed, one.task.turns


@pytest.mark.parametrize("language", JOINED)
def test_all_tasks_teach_words_and_requests_are_joined(language: str) -> None:
    assert not learned_phrases(lamps(language)).unread
    assert any(len(one.asks) == 2 for one in made(lamps(language)))


@pytest.mark.parametrize(
    ("language", "joints"),
    [("german", [" und "]), ("french", [" et "]), ("arabic", [" و"]), ("chinese", ["，"]), ("japanese", ["、"])],
)
def test_joints_are_learned(language: str, joints: list[str]) -> None:
    assert list(phrases_of(lamps(language)).connectives) == joints


@pytest.mark.parametrize("language", ALONE)
def test_requests_are_not_joined_without_a_joint_and_the_summary_says_so(language: str) -> None:
    assert {len(one.asks) for one in made(lamps(language))} == {1}
    [note] = wording(lamps(language), Synthesize())
    assert "these tasks are not in English, and none has words to join two requests" in note
    assert "a phrasebook or `synthesizer: endpoint`" in note


def test_tool_without_words_in_the_language_is_left_out_and_named() -> None:
    class German(Lamps):
        def questions(self, split: str):  # type: ignore[no-untyped-def]
            yield from (one for one in super().questions(split) if [call.name for call in one[2]] == ["turn_on"])

    world = German("german")
    assert {call.name for one in made(world) for call in one.task.calls} == {"turn_on"}
    assert "none has words for 1 tools (turn_off) and none to join two requests" in wording(world, Synthesize())[0]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("german", "turn off to Salon"),
        ("german", "please switch the lamp of the Salon off"),
        ("german", "мach bitte die Lampe aus im Raum Salon"),  # its first letter is Cyrillic
        ("chinese", "turn off to 客厅"),
        ("chinese", "请把客厅的灯关掉 please"),
        ("arabic", "أطفئ مصباح lamp الصالون"),
        ("english", "выключи parlour"),
    ],
)
def test_words_of_another_language_are_refused(language: str, words: str) -> None:
    task = next(one for one in lamps(language).tasks("seed") if one.tools == ["turn_off"])
    gate = gate_of(lamps(language), task, words)
    assert gate.passed is False
    assert "not in the language of the training tasks" in gate.reason


@pytest.mark.parametrize("language", [*JOINED, *ALONE])
def test_words_for_another_value_are_refused(language: str) -> None:
    world, speech = lamps(language), LANGUAGES[language]
    forms = dict(zip(speech.rooms, speech.forms or speech.rooms, strict=True))
    passed = []
    for task in world.tasks("seed"):
        assert gate_of(world, task, task.turns[0]).passed, task.turns
        room = task.calls[0].arguments["room"]
        other = next(one for one in reversed(speech.rooms) if one != room and forms[one] not in task.turns[0])
        words = task.turns[0].replace(forms[room], forms[other])
        passed += [words] if gate_of(world, task, words).passed else []
    assert not passed


def test_every_new_task_says_whose_parcel_it_means() -> None:
    assert len(made(parcels())) > 30
    for one in made(parcels()):
        names = [call.arguments["name"] for call in one.task.calls if call.name == "find_parcels"]
        assert all(name in one.task.turns[0] for name in names), one.task.turns
    assert all(name not in str(learned_phrases(parcels()).book) for name in NAMES)


def test_call_that_undoes_another_is_said_with_it() -> None:
    """Not "release the parcel of Ben" for a parcel that nobody holds."""
    for one in made(parcels()):
        if "release" in one.task.tools and "hold" in one.task.tools:
            assert "hold" in one.task.turns[0], one.task.turns


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("add the note ring twice", "find_parcels.name is 'Ana', which its words do not say"),
        ("tell the driver of Ben's parcel: ring twice", "find_parcels.name is 'Ana', which its words do not say"),
        ("tell the driver of Ana's parcel: ring twice", ""),
    ],
)
@pytest.mark.parametrize("rules", ["values", "language"])
def test_words_decide_the_values_of_lookups(words: str, complaint: str, rules: str) -> None:
    gate = gate_of(parcels(), of_ana(["Ana", "Ben"]), words, rules)
    assert (gate.reason if gate.passed is False else "") == complaint


def test_words_need_not_decide_what_the_world_makes_unique() -> None:
    assert gate_of(parcels(), of_ana(["Ana"]), "tell the driver: ring twice").passed is not False
    assert gate_of(parcels(), of_ana(["Ana"]), "tell the driver: call first").passed is False


def of_ana(names: list[str]) -> Task:
    rows = [{"id": 400 + row, "name": name, "city": "Rome", "status": "moving"} for row, name in enumerate(names)]
    calls = [ToolCall("find_parcels", {"name": "Ana"}), ToolCall("add_note", {"parcel_id": 400, "text": "ring twice"})]
    return Task.create("parcels", "x", [""], {"parcels": rows}, [calls])


def test_names_are_found_beside_letters_of_a_script_without_blanks() -> None:
    class Shop(MethodEnvironment):
        name, simulator = "shop", Till

        def questions(self, split: str):  # type: ignore[no-untyped-def]
            for amount, item in ((35, "iPad"), (20, "TV")):
                yield (
                    f"给{item}退款{amount}元",
                    {"items": ["iPad", "TV"]},
                    [ToolCall("refund", {"item": item, "amount": amount})],
                )

    assert learned_phrases(Shop()).book.actions["refund"] == ["给{item}退款{amount}元"]


class Till:
    def __init__(self, items: list[str]) -> None:
        self.refunds = dict.fromkeys(items, 0)

    def refund(self, item: str, amount: int) -> str:
        """Refund an item."""
        self.refunds[item] += amount
        return "ok"
