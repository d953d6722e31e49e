"""The manner of an environment's training tasks: how their words name tools and values.

Each instruction is aligned with its replayed reference. A value that the words hold becomes a slot; a value that an earlier call
reveals is described by that call's arguments or by its record; any other value is implied by the wording, which holds for this
value only. So a task yields a phrase for each tool that it asks for. What cannot be aligned is kept in ``Manner.unread``.

No rule needs a language, except that words are made up in English only. Tasks are English if three of four say a word of
``lexicon.ENGLISH`` outside of values, or mostly words of English tools. In other languages, tasks teach the joints between requests too, and requests that stand
alone teach the phrases.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import fmean
from typing import Any

from coevolve.core.interruptions import contained
from coevolve.core.task import CallOutcome, Task
from coevolve.environments.chains import is_identifier, origin_of, precondition, replay
from coevolve.environments.environment import CONNECTIVES as DEFAULT_CONNECTIVES
from coevolve.environments.environment import Environment, Phrasebook, Session
from coevolve.words.lexicon import ENGLISH, LETTER, NUMERALS, STEM, UNSPACED, inflected, words_of
from coevolve.words.phrase_generator import SLOT, constant, fits, noun_of, paths, sentence_of, spaced, told_by

Argument = tuple[str, str]  # a tool and the path of an argument
DICTATED = ("text", "content", "body", "message", "comment", "note", "reason")  # arguments that take a user's words
READ = 256  # most tasks to read
CONNECTIVES = (" and ", ", then ")  # between the parts of an English instruction
MOST = 0.75  # share of the tasks that say a word of ENGLISH, from which tasks are English
_STOP = re.compile(r"\s*[.;,،؛、，。；]\s*")
_CLAUSE = re.compile(r"(?:[.;] |, and then |, then |, and | and then | and also | and |, )(?!\d)", re.IGNORECASE)
_BACK = re.compile(r"\b(?:it|them|there|him|her)\b", re.IGNORECASE)
_NUMBER = rf"(?<!{LETTER})(?<![.,-])-?\d+(?:,\d{{3}})*(?:\.\d+)?(?!{LETTER})"
_LIST = re.compile(r"(?:\s|,|and|or|&)*", re.IGNORECASE)


@dataclass(frozen=True)
class Manner:
    """How tasks speak. ``book``: their phrases, the environment's own first.

    ``given``: of the uses of an argument, the share whose value the user names. ``homes``: the fields of the world that hold
    these values. ``origins``: the (tool, field) pairs that reveal the others. ``shapes``: the sets of arguments of a tool's
    calls. ``texts``: by the name of an argument or of a field of worlds, texts that users gave or worlds hold; "" has those of users.
    ``asked``: lookups that users ask for, and ``lookups``, the share of tasks
    that ask for nothing else. ``enabling``: tools that change something and that users do not ask for if another call needs it.
    ``words``: all words of the tasks. ``joining``: those of them that no single request says, if the tasks are not in English.
    ``wordless``: the tools that no task uses, if the tasks are not in English.
    ``unread``: instructions that gave no phrase, each with the reason.
    """

    book: Phrasebook
    given: Mapping[Argument, float]
    homes: Mapping[Argument, Counter[str]]
    origins: Mapping[Argument, Counter[Argument]]
    shapes: Mapping[str, list[frozenset[str]]]
    texts: Mapping[str, Sequence[str]]
    asked: frozenset[str]
    lookups: float
    enabling: frozenset[str]
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

    def said(self, tool: str, key: str) -> float:
        """The share of values of this argument that users name: of this tool, or else of all that have the argument."""
        if (tool, key) in self.given:
            return self.given[tool, key]
        shared = [share for (_, other), share in self.given.items() if other == key]
        return sum(shared) / len(shared) if shared else float(not is_identifier(key))

    def texts_for(self, key: str) -> Sequence[str]:
        """Texts for an argument that no task uses: of the same name, or any text of a user where users dictate."""
        return self.texts.get(key) or (self.texts.get("", ()) if key.endswith(DICTATED) else ())

    def of(self, table: Mapping[Argument, Counter[Any]], tool: str, key: str) -> Counter[Any]:
        """The entry of ``origins`` or ``homes`` for this argument, or else those for identifiers of the same name."""
        shared = [counter for (_, other), counter in table.items() if other == key and is_identifier(key)]
        return table[tool, key] if (tool, key) in self.given else sum(shared, Counter())


def phrases_of(environment: Environment) -> Phrasebook:
    """The environment's phrasebook, with what the wording of its training tasks adds."""
    return environment.phrasebook if environment.phrasebook.complete else manner_of(environment).book


@lru_cache(maxsize=8)
def manner_of(environment: Environment) -> Manner:
    """The manner of the first ``READ`` training tasks of ``environment``."""
    reader = _Reader()
    with closing(environment.open()) as session:
        for task in environment.tasks("seed")[:READ]:
            reader.replay(session, task)
    return reader.manner(environment)


@dataclass(frozen=True)
class _Request:
    """A task with its replayed calls, of which its words ask for those at ``asked`` and then for a field of a result."""

    task: Task
    calls: Sequence[CallOutcome]
    asked: Sequence[int]
    question: tuple[int, str] | None
    book: Phrasebook

    @property
    def rows(self) -> list[int]:
        return [*self.asked, *([self.question[0]] if self.question else [])]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where the words name values of calls."""
        values = (value for call in self.calls for _, value in paths(call.arguments))
        return [span for value in values for span in _spans(value, self.task.turns[0])]

    @property
    def words(self) -> frozenset[str]:
        """The words outside of values."""
        text = self.task.turns[0]
        for start, end in self.spans:
            text = text[:start] + " " * (end - start) + text[end:]
        return frozenset(words_of(text))


class _Reader:
    """Counts what tasks say."""

    def __init__(self) -> None:
        self._phrases: dict[str, dict[str, Counter[str]]] = {
            part: defaultdict(Counter) for part in ("actions", "lookups", "questions")
        }
        self._given: dict[Argument, list[bool]] = defaultdict(list)
        self._homes: dict[Argument, Counter[str]] = defaultdict(Counter)
        self._origins: dict[Argument, Counter[Argument]] = defaultdict(Counter)
        self._shapes: dict[str, list[frozenset[str]]] = defaultdict(list)
        self._texts: dict[str, dict[str, None]] = defaultdict(dict)
        self._asked: Counter[str] = Counter()
        self._enabling: set[str] = set()
        self._lookups = self._tasks = 0
        self._requests: list[_Request] = []
        self._unread: dict[str, str] = {}
        self._described: dict[tuple[str, str], list[tuple[Argument, set[str]]]] = {}

    def replay(self, session: Session, task: Task) -> None:
        causes: list[str] = []
        with contained(causes):
            self._replay(session, task)
        for cause in causes:
            self._unread.setdefault(" ".join(task.turns[:1]), f"its calls break the session ({cause})")

    def _replay(self, session: Session, task: Task) -> None:
        self._tasks += 1
        if len(task.turns) != 1:
            self._unread.setdefault(" ".join(task.turns[:1]), f"has {len(task.turns)} turns")
            return
        played = replay(session, task)
        chain, changed, ended = played.chain, played.changed, played.ended
        if not chain or not all(call.ok for call in chain):
            self._unread.setdefault(task.turns[0], "its reference is refused")
            return
        answer = next(iter(chain[-1].arguments.values()), None) if ended else None
        calls = chain[:-1] if ended else chain
        book = Phrasebook(revealed=_revealed(calls, task.turns[0]))
        self._note(task, calls, book)
        changes = [row for row in range(len(calls)) if changed[row]]
        effects = [row for row in changes if not precondition(session, task, chain, row)]
        self._enabling.update(calls[row].name for row in changes if row not in effects)
        asked = effects + [
            row for row in range(max(effects, default=-1) + 1, len(calls)) if not _used(calls, row, book)
        ]
        question = None
        if ended:
            asked = effects
            origin = None if answer is None else origin_of("", answer, chain, len(calls))
            question = (origin.position, origin.field) if origin and origin.field else None
        self._asked.update(calls[row].name for row in asked if not changed[row])
        self._lookups += not effects
        self._requests.append(_Request(task, calls, asked, question, book))

    def _read(self, english: bool, joints: Sequence[str]) -> None:
        """Note the phrases of all tasks, those of single requests first: in other languages than English they suffice."""
        split = _CLAUSE if english else re.compile("|".join(map(re.escape, joints)) or "(?!)")
        for one in self._requests if english else sorted(self._requests, key=lambda one: len(one.rows) > 1):
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

    def _note(self, task: Task, calls: Sequence[CallOutcome], book: Phrasebook) -> None:
        text, world = task.turns[0], list(_world(task.world))
        for row, call in enumerate(calls):
            self._shapes[call.name].append(frozenset(call.arguments))
            for path, value in paths(call.arguments):
                argument = (call.name, path)
                origin = None if _spans(value, text) else told_by(path, value, calls, row, book)
                self._given[argument].append(origin is None)
                if origin is not None:
                    self._origins[argument][calls[origin.position].name, origin.field] += 1
                homes = {place for place, one in world if one == value and type(one) is type(value)}
                self._homes[argument].update(homes)
                if isinstance(value, str) and not homes and " " in value:
                    self._texts[""][value] = self._texts[path][value] = None
        for place, value in world:
            if isinstance(value, str) and " " in value:
                self._texts[place.rsplit(".", 1)[-1]][value] = None

    def _phrase(self, clause: str, one: _Request, row: int, phrases: Counter[str]) -> list[str]:
        """Count among ``phrases`` what ``clause`` gives for the call at ``row``, and the descriptions in it, or say why not."""
        calls, task, book = one.calls, one.task, one.book
        template = _template(clause, calls, row, book)
        if not fits(template, calls, row, book) or not _decides(template, clause, one):
            return ["it does not say a value, or which of several results is meant"]
        left = SLOT.sub("", template)
        names = (one for _, one in _world(task.world) if isinstance(one, str) and one.lower() != one)
        stray = re.search(r"\d+", left) or next((spans for name in names if (spans := _spans(name, left))), None)
        if stray:
            named = stray[0] if isinstance(stray, re.Match) else left[slice(*stray[0])]
            return [f"it names {named}, which no call takes"]
        phrases[self._factored(template, calls, row, task, book)] += 1
        return []

    def _factored(self, template: str, calls: Sequence[CallOutcome], row: int, task: Task, book: Phrasebook) -> str:
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
            origin = told_by(path, value, calls, row, book)
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
                self._described[name, phrase] = [
                    ((name, key), {place for place, found in _world(task.world) if found == one})
                    for key, one in paths(calls[origin.position].arguments)
                ]
                template = template[:start] + slot + template[end:]
        return template

    def manner(self, environment: Environment) -> Manner:
        own = environment.phrasebook
        functions = [schema["function"] for schema in environment.tools()]
        sentences = {one["name"]: sentence_of(one["name"], one.get("description") or "") for one in functions}
        tools = frozenset(words_of(" ".join(f"{spaced(name)} {said}" for name, said in sentences.items())))
        english = sum(_is_english(one.words, tools) for one in self._requests) >= MOST * len(self._requests)
        alone = frozenset(word for one in self._requests if len(one.rows) == 1 for word in one.words)
        joints = CONNECTIVES if english else _joints(self._requests, alone)
        self._read(english, joints)
        # numbers may coincide with others of the world, so a home holds most values
        homes = {
            argument: Counter(
                {place: count for place, count in places.items() if count >= len(self._given[argument]) / 2}
            )
            for argument, places in self._homes.items()
        }
        for (tool, phrase), values in self._described.items():
            if any(homes[argument] and not places & set(homes[argument]) for argument, places in values):
                del self._phrases["lookups"][tool][phrase]  # it describes another kind of value than users mostly give
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
            revealed=tuple(f"{tool}.{path}" for tool, path in self._origins if fmean(self._given[tool, path]) <= 0.5),
            openers=("",),
            closers=("",),
            connectives=own.connectives if tuple(own.connectives) != DEFAULT_CONNECTIVES else joints,
            english=english,
        )
        wordless = [
            name for name in sentences if not english and not book.actions.get(name) and name not in self._shapes
        ]
        return Manner(
            book=book,
            given={argument: sum(given) / len(given) for argument, given in self._given.items()},
            homes=homes,
            origins=self._origins,
            shapes=self._shapes,
            texts={name: list(values) for name, values in self._texts.items()},
            asked=frozenset(self._asked),
            lookups=self._lookups / max(self._tasks, 1),
            enabling=frozenset(self._enabling),
            words=frozenset(word for one in self._requests for word in words_of(one.task.turns[0])),
            joining=frozenset().union(*(() if english else one.words - alone for one in self._requests)),
            wordless=wordless,
            tasks=self._tasks,
            unread=list(self._unread.items()),
        )


def _is_english(words: frozenset[str], tools: frozenset[str]) -> bool:
    """Whether ``words`` are English: one is of ENGLISH, or half of them describe the ``tools``, which are described in English."""
    terse = not ENGLISH.isdisjoint(tools) and 2 * len(words & tools) >= len(words)
    return terse or not ENGLISH.isdisjoint(words)


def _decides(template: str, clause: str, one: _Request) -> bool:
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
        if _spans(value, one.task.turns[0]):
            return False
        found = isinstance(value, str) and any(key.startswith(f"{call.name}.") for call in one.calls)
        if (found or is_identifier(key)) and not inflected(value, clause) and beside(value, one.task.world) != [value]:
            return False
    return True


def beside(value: Any, world: Any) -> list[Any]:
    """The values in all places of ``world`` that hold ``value``."""
    return values_at(world, {place: 1 for place, found in _world(world) if found == value})


def _decisive(phrases: Sequence[str]) -> list[str]:
    """``phrases`` without those whose words stand for several values, so that they decide for none."""
    said = Counter(re.sub(r"\{[^{}]*=[^{}]*\}", "", phrase) for phrase in phrases)
    return [phrase for phrase in phrases if said[re.sub(r"\{[^{}]*=[^{}]*\}", "", phrase)] == 1 or "=" not in phrase]


def _joints(requests: Sequence[_Request], known: frozenset[str]) -> list[str]:
    """The words or stops between two requests, from tasks with several: stops, or else words that are not ``known``."""
    gaps = [_unknown(gap, known) for one in requests for gap in _gaps(one)]
    counted = Counter(joint for gap in gaps for joint in gap)
    chosen = Counter(min(gap, key=lambda joint: (-counted[joint], len(joint))) for gap in gaps if gap)
    return [joint for joint, count in chosen.most_common() if count > 1] or sorted(chosen)


def _gaps(one: _Request) -> Iterator[str]:
    """The text between the first value of a request and the first of the next."""
    text, ends = one.task.turns[0], [0]
    for row in one.rows:
        values = [value for _, value in _slots_to_find(one.calls, row, one.book)]
        spans = [
            span for value in values for span in _spans(value, text) or inflected(value, text) if span[0] >= ends[-1]
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


def _revealed(calls: Sequence[CallOutcome], text: str) -> tuple[str, ...]:
    """The ``tool.argument`` pairs besides identifiers whose values a lookup told: alone, or with a field that ``text`` names."""
    found = set()
    for row, call in enumerate(calls):
        for path, value in paths(call.arguments):
            origin = origin_of(path, value, calls, row)
            if origin and (origin.alone or any(_spans(one, text) for one in origin.distinct.values())):
                found.add(f"{call.name}.{path}")
    return tuple(sorted(found))


def _used(calls: Sequence[CallOutcome], row: int, book: Phrasebook) -> bool:
    """Whether a later call takes a value from the call at ``row``."""
    return any(
        (origin := told_by(path, value, calls, later, book)) is not None and origin.position == row
        for later in range(row + 1, len(calls))
        for path, value in paths(calls[later].arguments)
    )


def _world(world: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The scalars of a world with their places, such as ``tickets.id``; the keys of a mapping of records count too."""
    if isinstance(world, dict):
        for key, value in world.items():
            inner = f"{place}.{key}" if place else str(key)
            if isinstance(value, dict) and place:
                yield f"{place}.*", str(key)
                inner = f"{place}.*"
            yield from _world(value, inner)
    elif isinstance(world, list):
        for value in world:
            yield from _world(value, place)
    else:
        yield place, world


def values_at(world: Any, places: Mapping[str, int]) -> list[Any]:
    """The different values at ``places`` of a world."""
    found: dict[Any, None] = {
        value: None for place, value in _world(world) if place in places and value not in ("", None)
    }
    return list(found)


def _clauses(one: _Request, split: re.Pattern[str]) -> list[str]:
    """The part of the text for each request, in order; empty if the parts cannot be told apart."""
    text, calls, number = one.task.turns[0], one.calls, len(one.rows)
    if number == 1:
        return [text]
    kept, start = [], 0
    for match in split.finditer(text):
        if not any(begin < match.start() and match.end() < end for begin, end in one.spans):  # a value may hold a joint
            kept.append(text[start : match.start()])
            start = match.end()
    kept.append(text[start:])
    return (
        kept
        if len(kept) == number
        # each part has all values of its call that some words may name
        and all(
            fits(_template(part, calls, row, one.book), calls, row, one.book) or not calls[row].arguments
            for part, row in zip(kept, one.asked, strict=False)
        )
        else []
    )


def _template(clause: str, calls: Sequence[CallOutcome], row: int, book: Phrasebook) -> str:
    """``clause`` with a slot for each value of the call at ``row``, and slots that restrict it after its last word."""
    places: list[tuple[int, int, str]] = []
    silent: list[str] = []
    for slot, value in sorted(_slots_to_find(calls, row, book), key=lambda item: -len(str(item[1]))):
        free = [
            span
            for span in _spans(value, clause)
            if all(span[1] <= start or span[0] >= end for start, end, _ in places)
        ]
        if free:
            places.append((*free[0], slot))
    known = frozenset(slot for _, _, slot in places)
    slots = _needed_slots(known, calls, row, book)
    template = clause
    for start, end, slot in sorted(places, reverse=True):
        if slot in slots:
            template = f"{template[:start]}{{{slot}}}{template[end:]}"
    silent = [slot for slot in slots if slot not in known]
    return template + "".join(f"{{{slot}}}" for slot in silent)


def _slots_to_find(
    calls: Sequence[CallOutcome], row: int, book: Phrasebook, before: str = ""
) -> Iterator[tuple[str, Any]]:
    """The slots whose values words may name: arguments, fields beside them, and arguments of their lookups."""
    for path, value in paths(calls[row].arguments):
        yield before + path, value
        if origin := told_by(path, value, calls, row, book):
            yield from _slots_to_find(calls, origin.position, book, f"{calls[origin.position].name}.")
            yield from ((f"{before}{path}.{key}", one) for key, one in origin.distinct.items())


def _needed_slots(
    known: frozenset[str], calls: Sequence[CallOutcome], row: int, book: Phrasebook, before: str = ""
) -> list[str]:
    """Of the slots ``known`` to be in the words, those that give the call's values, and restrictions for the other values."""
    slots: list[str] = []
    for path, value in paths(calls[row].arguments):
        slot = before + path
        origin = told_by(path, value, calls, row, book)
        if slot in known:
            slots.append(slot)
        elif origin is None:
            slots.append(constant(slot, value))
        else:
            name = calls[origin.position].name
            beside = [f"{slot}.{key}" for key in sorted(origin.distinct) if f"{slot}.{key}" in known][:1]
            inner = _needed_slots(known, calls, origin.position, book, f"{name}.")
            slots += [*beside, *inner] if beside or inner else [name]
    return slots


def _spans(value: Any, text: str) -> list[tuple[int, int]]:
    """Where ``text`` names ``value``."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        numbers = [(one.span(), one[0]) for one in re.finditer(_NUMBER, text)]
        found = [span for span, number in numbers if float(number.replace(",", "")) == value]
        word = NUMERALS[int(value)] if value in range(len(NUMERALS)) else None
        return found or [one.span() for one in re.finditer(rf"\b{word}\b", text, re.IGNORECASE) if word]
    if isinstance(value, list):
        each = [_spans(one, text)[:1] for one in value]
        spans = sorted(span for one in each for span in one)
        whole = bool(spans) and all(each)
        linked = all(_LIST.fullmatch(text[end:start]) for (_, end), (start, _) in pairwise(spans))
        return [(spans[0][0], spans[-1][1])] if whole and linked else []
    if not isinstance(value, str) or not value.strip():
        return []
    for form in dict.fromkeys((value, value.replace("_", " "))):
        flags = re.IGNORECASE if len(value) > 1 else re.NOFLAG
        before, after = (re.match(f"[{UNSPACED}]", sign) is None for sign in (form[0], form[-1]))
        pattern = rf"(?<!{LETTER})" * before + re.escape(form) + rf"(?=(?:e?s)?(?!{LETTER}))" * after
        if form.lower() in text.lower() and (spans := [one.span() for one in re.finditer(pattern, text, flags)]):
            return spans
    return []
