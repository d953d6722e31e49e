"""Phrases that are learned from an environment's training tasks: how their words name tools and values.

Each instruction is aligned with its replayed reference. A value that the words hold becomes a slot; a value that an earlier call
reveals is described by that call's arguments or by its record; any other value is implied by the wording, which holds for this
value only. So a task yields a phrase for each tool that it asks for. What cannot be aligned is kept in ``LearnedPhrases.unread``.

No rule needs a language, except that words are made up in English only. Tasks are English if three of four say a word of
``lexicon.ENGLISH`` outside of values, or mostly words of English tools. In other languages, tasks teach the joints between
requests too, and requests that stand alone teach the phrases.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coevolve.core.mentions import LETTER, STEM, Span, inflected, mentions, words_of
from coevolve.core.task import CallOutcome, Task
from coevolve.environments.chains import is_identifier, paths, told_by
from coevolve.environments.environment import CONNECTIVES as DEFAULT_CONNECTIVES
from coevolve.environments.environment import Environment, Phrasebook
from coevolve.environments.user_habits import UserHabits, UserRequest, beside, fields_of, habits_of
from coevolve.words.lexicon import ENGLISH
from coevolve.words.phrase_generator import SLOT, constant, fits, noun_of, sentence_of, spaced

CONNECTIVES = (" and ", ", then ")  # between the parts of an English instruction
MOST = 0.75  # share of the tasks that say a word of ENGLISH, from which tasks are English
_STOP = re.compile(r"\s*[.;,،؛、，。；]\s*")
_CLAUSE = re.compile(r"(?:[.;] |, and then |, then |, and | and then | and also | and |, )(?!\d)", re.IGNORECASE)
_BACK = re.compile(r"\b(?:it|them|there|him|her)\b", re.IGNORECASE)


@dataclass(frozen=True)
class LearnedPhrases:
    """How an environment's ``tasks`` training tasks speak. ``book``: their phrases, the environment's own first.

    ``words``: all words of the tasks. ``joining``: those of them that no single request says, if the tasks are not in English.
    ``wordless``: the tools that no task uses, if the tasks are not in English.
    ``unread``: instructions that gave no phrase, each with the reason.
    """

    book: Phrasebook
    words: frozenset[str]
    joining: frozenset[str]
    wordless: Sequence[str]
    tasks: int
    unread: Sequence[tuple[str, str]]

    def note(self, name: str) -> str:
        """How much of the training tasks taught words, with an example of a task that taught none."""
        example = "".join(f"; one did not, since {why}: {words[:100]!r}" for words, why in self.unread[:1])
        taught = (
            f"{self.tasks - len(self.unread)} of {self.tasks} training tasks of {name} taught the words of new tasks"
        )
        return f"{taught}{example}{self._foreign()}; `coevolve env phrases {name}` prints them"

    def _foreign(self) -> str:
        """What new tasks lack because no words are made up in another language than English."""
        lacks = [f"for {len(self.wordless)} tools ({', '.join(self.wordless)})"] if self.wordless else []
        lacks += [] if self.book.connectives else ["to join two requests"]
        if self.book.english or not lacks:
            return ""
        remedy = "a phrasebook or `synthesizer: endpoint` adds such tasks"
        return f"; these tasks are not in English, and none has words {' and none '.join(lacks)}: {remedy}"


def phrases_of(environment: Environment) -> Phrasebook:
    """The environment's phrasebook, with what the wording of its training tasks adds."""
    return environment.phrasebook if environment.phrasebook.complete else learned_phrases(environment).book


@lru_cache(maxsize=8)
def learned_phrases(environment: Environment) -> LearnedPhrases:
    """What the training tasks of ``environment`` teach that ``habits_of`` reads."""
    return _Reader(habits_of(environment)).learn(environment)


def _value_spans(request: UserRequest) -> list[Span]:
    """Where the words of ``request`` name values of its calls."""
    values = (value for call in request.calls for _, value in paths(call.arguments))
    return [span for value in values for span in mentions(value, request.task.turns[0])]


def _own_words(request: UserRequest) -> frozenset[str]:
    """The words of ``request`` outside of values."""
    text = request.task.turns[0]
    for start, end in _value_spans(request):
        text = text[:start] + " " * (end - start) + text[end:]
    return frozenset(words_of(text))


class _Reader:
    """Counts the phrases of tasks."""

    def __init__(self, habits: UserHabits) -> None:
        self._habits = habits
        self._phrases: dict[str, dict[str, Counter[str]]] = {
            part: defaultdict(Counter) for part in ("actions", "lookups", "questions")
        }
        self._unread = dict(habits.unread)

    def _read(self, english: bool, joints: Sequence[str]) -> None:
        """Note the phrases of all tasks, those of single requests first: in other languages than English they suffice."""
        split = _CLAUSE if english else re.compile("|".join(map(re.escape, joints)) or "(?!)")
        for one in (
            self._habits.requests if english else sorted(self._habits.requests, key=lambda one: len(one.rows) > 1)
        ):
            calls, question = one.calls, one.question
            clauses = _clauses(one, split)
            refused = [] if clauses else [f"its parts do not match its {len(one.rows)} requests"]
            for row, clause in zip(one.rows, clauses, strict=False):
                last = question if question and row == question[0] and row not in one.asked else None
                part, key = ("questions", f"{calls[row].name}.{last[1]}") if last else ("actions", calls[row].name)
                if english or len(clauses) == 1 or not self._phrases[part][key]:
                    refused += self._phrase(clause, one, row, self._phrases[part][key])
            if len(refused) >= max(len(clauses), 1):
                self._unread.setdefault(one.task.turns[0], refused[0])

    def _phrase(self, clause: str, one: UserRequest, row: int, phrases: Counter[str]) -> list[str]:
        """Count among ``phrases`` what ``clause`` gives for the call at ``row``, and the descriptions in it, or say why not."""
        calls, task, revealed = one.calls, one.task, one.revealed
        template = _template(clause, calls, row, revealed)
        if not fits(template, calls, row, revealed) or not _decides(template, clause, one):
            return ["it does not say a value, or which of several results is meant"]
        left = SLOT.sub("", template)
        names = (one for _, one in fields_of(task.world) if isinstance(one, str) and one.lower() != one)
        stray = re.search(r"\d+", left) or next((spans for name in names if (spans := mentions(name, left))), None)
        if stray:
            named = stray[0] if isinstance(stray, re.Match) else left[slice(*stray[0])]
            return [f"it names {named}, which no call takes"]
        phrases[self._factored(template, calls, row, task, revealed)] += 1
        return []

    def _factored(
        self, template: str, calls: Sequence[CallOutcome], row: int, task: Task, revealed: Collection[str]
    ) -> str:
        """``template`` with descriptions replaced by the slot of the described argument, which are noted as lookups."""
        for path, value in paths(calls[row].arguments):
            noun, slot = re.escape(noun_of(path, calls[row].name)), f"{{{path}}}"
            ways = rf"(?:(?:the |an? |my |our )?{noun}s? (?:number |no\.? ?|id |with id )?[#\"']?|[#\"'])?{re.escape(slot)}[\"']?"
            if is_identifier(path) and (match := re.search(ways, template, re.IGNORECASE)):
                said = match[0]
                self._phrases["lookups"][path][
                    said if match.start() or said[1:2].isupper() else said[0].lower() + said[1:]
                ] += 1
                template = template[: match.start()] + slot + template[match.end() :]
            origin = told_by(path, value, calls, row, revealed)
            if origin is None or slot in template or not origin.alone:
                continue
            name = calls[origin.position].name
            inner = [match for match in re.finditer(r"\{[^{}]*\}", template) if match[0].startswith(f"{{{name}.")]
            if not inner or any(match[0].startswith(f"{{{path}.") for match in re.finditer(r"\{[^{}]*\}", template)):
                continue
            start, end = inner[0].start(), inner[-1].end()
            after = re.match(rf"(?:'s)?(?: [a-z]+)?? {noun}s?\b", template[end:], re.IGNORECASE)
            before = re.search(
                rf"(?:\b(?:the|an?|my|our|that|this) )?(?:[a-z]+ )?\b{noun}s?\b[^{{}}.,;]{{0,40}}$",
                template[:start],
                re.IGNORECASE,
            )
            if after:
                end += after.end()
                article = re.search(r"\b(?:the|an?|my|our|that|this) $", template[:start], re.IGNORECASE)
                start = article.start() if article else start
            elif before:
                start = before.start()
            else:
                continue
            thing = template[start:end]
            if len(re.findall(r"\{[^{}]*\}", thing)) == len(inner):
                phrase = thing.replace(f"{{{name}.", "{")
                self._phrases["lookups"][name][phrase] += 1
                template = template[:start] + slot + template[end:]
        return template

    def learn(self, environment: Environment) -> LearnedPhrases:
        own, habits = environment.phrasebook, self._habits
        functions = [schema["function"] for schema in environment.tools()]
        sentences = {one["name"]: sentence_of(one["name"], one.get("description") or "") for one in functions}
        tools = frozenset(words_of(" ".join(f"{spaced(name)} {said}" for name, said in sentences.items())))
        words = [_own_words(one) for one in habits.requests]
        english = sum(_is_english(one, tools) for one in words) >= MOST * len(words)
        alone = frozenset().union(
            *(said for one, said in zip(habits.requests, words, strict=True) if len(one.rows) == 1)
        )
        joints = CONNECTIVES if english else _joints(habits.requests, alone)
        self._read(english, joints)
        found = {
            # the phrases of several tasks, most frequent first, or else all phrases; inflected values have one phrase each
            part: {
                name: [
                    phrase for phrase, count in counted.most_common() if count > 1 or (not english and "=" in phrase)
                ]
                or sorted(counted)
                for name, counted in tools.items()
                if counted
            }
            for part, tools in self._phrases.items()
        }
        actions, lookups = {**found["actions"], **own.actions}, {**found["lookups"], **own.lookups}
        book = Phrasebook(
            actions={tool: kept for tool, phrases in actions.items() if (kept := _decisive(phrases))},
            lookups={tool: kept for tool, phrases in lookups.items() if (kept := _decisive(phrases))},
            fields=own.fields,
            questions={**found["questions"], **own.questions},
            sentences={**sentences, **own.sentences} if english else {},
            revealed=tuple(f"{tool}.{path}" for tool, path in habits.origins if habits.said(tool, path) <= 0.5),
            openers=("",),
            closers=("",),
            connectives=own.connectives if tuple(own.connectives) != DEFAULT_CONNECTIVES else joints,
            english=english,
        )
        wordless = [
            name for name in sentences if not english and not book.actions.get(name) and name not in habits.shapes
        ]
        return LearnedPhrases(
            book=book,
            words=frozenset(word for one in habits.requests for word in words_of(one.task.turns[0])),
            joining=frozenset().union(*(() if english else said - alone for said in words)),
            wordless=wordless,
            tasks=habits.tasks,
            unread=list(self._unread.items()),
        )


def _is_english(words: frozenset[str], tools: frozenset[str]) -> bool:
    """Whether ``words`` are English: one is of ENGLISH, or half of them describe the ``tools``, which are described in English."""
    terse = not ENGLISH.isdisjoint(tools) and 2 * len(words & tools) >= len(words)
    return terse or not ENGLISH.isdisjoint(words)


def _decides(template: str, clause: str, one: UserRequest) -> bool:
    """Whether ``clause`` can mean the values to which ``template`` is restricted.

    A value that another part of the instruction names is not meant here, nor does a part with a pronoun stand alone. The
    value of a lookup, and any identifier, must be said, if only in another form, unless the world has no other.
    """
    if clause != one.task.turns[0] and _BACK.search(SLOT.sub("", template)):
        return False
    for slot in SLOT.findall(template):
        key, equals, written = slot.partition("=")
        if not equals:
            continue
        value = json.loads(written)
        if mentions(value, one.task.turns[0]):
            return False
        found = isinstance(value, str) and any(key.startswith(f"{call.name}.") for call in one.calls)
        if (found or is_identifier(key)) and not inflected(value, clause) and beside(value, one.task.world) != [value]:
            return False
    return True


def _decisive(phrases: Sequence[str]) -> list[str]:
    """``phrases`` without those whose words stand for several values, so that they decide for none."""
    said = Counter(re.sub(r"\{[^{}]*=[^{}]*\}", "", phrase) for phrase in phrases)
    return [phrase for phrase in phrases if said[re.sub(r"\{[^{}]*=[^{}]*\}", "", phrase)] == 1 or "=" not in phrase]


def _joints(requests: Sequence[UserRequest], known: frozenset[str]) -> list[str]:
    """The words or stops between two requests, from tasks with several: stops, or else words that are not ``known``."""
    gaps = [_unknown(gap, known) for one in requests for gap in _gaps(one)]
    counted = Counter(joint for gap in gaps for joint in gap)
    chosen = Counter(min(gap, key=lambda joint: (-counted[joint], len(joint))) for gap in gaps if gap)
    return [joint for joint, count in chosen.most_common() if count > 1] or sorted(chosen)


def _gaps(one: UserRequest) -> Iterator[str]:
    """The text between the first value of a request and the first of the next."""
    text, ends = one.task.turns[0], [0]
    for row in one.rows:
        values = [value for _, value in _slots_to_find(one.calls, row, one.revealed)]
        spans = [
            span for value in values for span in mentions(value, text) or inflected(value, text) if span[0] >= ends[-1]
        ]
        if not spans:
            return
        if len(ends) > 1:
            yield text[ends[-1] : spans[0][0]]
        ends.append(spans[0][1])


def _unknown(gap: str, known: frozenset[str]) -> list[str]:
    """The possible joints in ``gap``: its first stop, or else each word, or its first letters, that is no form of a known word."""
    if stop := _STOP.search(gap):
        return [stop[0]]
    joints = []
    for match in re.finditer(rf" ((?:{LETTER})+)(?= )", gap):
        word = "".join(words_of(match[1]))
        attached = next((f" {match[1][:size]}" for size in (1, 2) if word[size:] in known), f"{match[0]} ")
        if not any(word.startswith(other[:STEM]) for other in known if len(other) >= STEM) and word not in known:
            joints.append(attached)
    return joints


def _clauses(one: UserRequest, split: re.Pattern[str]) -> list[str]:
    """The part of the text for each request, in order; empty if the parts cannot be told apart."""
    text, number = one.task.turns[0], len(one.rows)
    if number == 1:
        return [text]
    kept, start, values = [], 0, _value_spans(one)
    for match in split.finditer(text):
        if not any(begin < match.start() and match.end() < end for begin, end in values):  # a value may hold a joint
            kept.append(text[start : match.start()])
            start = match.end()
    kept.append(text[start:])
    return kept if len(kept) == number else []


def _template(clause: str, calls: Sequence[CallOutcome], row: int, revealed: Collection[str]) -> str:
    """``clause`` with a slot for each value of the call at ``row``, and slots that restrict it after its last word."""
    places: list[tuple[int, int, str]] = []
    silent: list[str] = []
    for slot, value in sorted(_slots_to_find(calls, row, revealed), key=lambda item: -len(str(item[1]))):
        free = [
            span
            for span in mentions(value, clause)
            if all(span[1] <= start or span[0] >= end for start, end, _ in places)
        ]
        if free:
            places.append((*free[0], slot))
    known = frozenset(slot for _, _, slot in places)
    slots = _needed_slots(known, calls, row, revealed)
    template = clause
    for start, end, slot in sorted(places, reverse=True):
        if slot in slots:
            template = f"{template[:start]}{{{slot}}}{template[end:]}"
    silent = [slot for slot in slots if slot not in known]
    return template + "".join(f"{{{slot}}}" for slot in silent)


def _slots_to_find(
    calls: Sequence[CallOutcome], row: int, revealed: Collection[str], before: str = ""
) -> Iterator[tuple[str, Any]]:
    """The slots whose values words may name: arguments, fields beside them, and arguments of their lookups."""
    for path, value in paths(calls[row].arguments):
        yield before + path, value
        if origin := told_by(path, value, calls, row, revealed):
            yield from _slots_to_find(calls, origin.position, revealed, f"{calls[origin.position].name}.")
            yield from ((f"{before}{path}.{key}", one) for key, one in origin.distinct.items())


def _needed_slots(
    known: frozenset[str], calls: Sequence[CallOutcome], row: int, revealed: Collection[str], before: str = ""
) -> list[str]:
    """Of the slots ``known`` to be in the words, those that give the call's values, and restrictions for the other values."""
    slots: list[str] = []
    for path, value in paths(calls[row].arguments):
        slot = before + path
        origin = told_by(path, value, calls, row, revealed)
        if slot in known:
            slots.append(slot)
        elif origin is None:
            slots.append(constant(slot, value))
        else:
            name = calls[origin.position].name
            beside = [f"{slot}.{key}" for key in sorted(origin.distinct) if f"{slot}.{key}" in known][:1]
            inner = _needed_slots(known, calls, origin.position, revealed, f"{name}.")
            slots += [*beside, *inner] if beside or inner else [name]
    return slots
