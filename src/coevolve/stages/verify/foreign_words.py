"""Find words in an instruction that are foreign to an environment's language: unknown words, negations and prohibitions.

A language consists of whole sentences. A foreign word in such a sentence is noise or a negation, never a synonym that a
gate could understand.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

from coevolve.core.confusables import seen
from coevolve.environments.chains import leaves
from coevolve.environments.environment import CLOSERS, CONNECTIVES, OPENERS, Environment
from coevolve.environments.lexicon import NUMERALS, UNHEARD
from coevolve.environments.phrase_generator import SLOT, spaced

Edit = tuple[int, int, str]  # the first character, the end, and the text that replaces them

MOST = 3  # most foreign words of an instruction that is otherwise in a language
SHOWN = 160  # most characters of an instruction in a reason
LONGEST = 1000  # most characters of an instruction that is in a language
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_FUNCTION_WORDS = """
a an the my our your his her their its this that these those to for of on in into at by with from about up out off away back and or then
also please me it i you we he she they them is are be was were do does did can could would will who what when where which how if as so
now go first need thanks thank kindly just hi hello hey ok okay
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_NOT = r"do not|don['’]?t|must not|mustn['’]?t|should not|shouldn['’]?t"
NEGATION = re.compile(
    rf"\b(?:{_NOT}|does not|doesn['’]?t|did not|didn['’]?t|will not|won['’]?t|cannot|can not|can['’]t|by no means|under no circumstances"
    r"|but not|not|never|no|none|nothing|nobody|neither|nor|without|except(?: for)?|excluding|unless|instead of|rather than|other than"
    r"|apart from|refrain from|avoid)\b",
    re.IGNORECASE,
)
_COURTESY = r"please|kindly|thanks|thank you|thx|ok|okay|just|now"
_BEGIN = re.compile(
    rf"(?:{_COURTESY}|hi|hello|hey|so|first|could you|can you|would you|will you|i need you to|i want you to|i['’]d like you to"
    rf"|i would like you to|go and|go ahead and|make sure to|remember to|(?:{_NOT}) forget to)\b[\s,!.]*",
    re.IGNORECASE,
)
_END = re.compile(rf"\b(?:{_COURTESY}|for me|if you can|right away|right now|asap|many thanks|cheers)$", re.IGNORECASE)
_COURTESIES = 4  # most at either end
_FORBIDS = (
    re.compile(
        rf"(?:{_NOT}|refrain from|under no circumstances)\b(?!\s+(?:forget|hesitate|worry|mind)\b)", re.IGNORECASE
    ),
    re.compile(rf"\b(?:{_NOT}|unless|except(?: for)?|instead of|rather than)[\s.!?]*$", re.IGNORECASE),
)


def forbids(text: str) -> str:
    """The prohibition at the beginning of an instruction, or the bare negation at its end; empty without either."""
    begin, end = _FORBIDS
    match = begin.match(courteous(text)) or end.search(text)
    return match[0].strip(" .!?") if match else ""


def courteous(text: str) -> str:
    """``text`` without the courtesies at its beginning and end."""
    bare = text.strip()
    for _ in range(_COURTESIES):
        begin = _BEGIN.match(bare)
        bare = bare[begin.end() :] if begin else bare
        end = _END.search(bare.rstrip(" ,!."))
        bare = bare[: end.start()].rstrip(" ,!.") if end else bare
    return bare or text


def normal(text: str) -> str:
    """``text`` in a phrasebook's form: without courtesies, and with commas only in connectives."""
    spaced_out = re.sub(r"\s*([,;])(?=\s|$)\s*", r" \1 ", courteous(text))
    kept = re.sub(r" (?:,(?! then )|;(?! after that ))", "", spaced_out)
    return " ".join(kept.split())


def cut(text: str) -> str:
    """``text`` as a quotation in a gate's reason."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def words_of(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", seen(text)))


@lru_cache(maxsize=8)
def vocabulary(environment: Environment) -> frozenset[str]:
    """The words of the environment's phrases and tools, and of values in its training tasks' references."""
    book = environment.phrasebook
    phrases = [
        template
        for part in (book.actions, book.lookups, book.fields, book.questions)
        for templates in part.values()
        for template in templates
    ]
    functions = [schema["function"] for schema in environment.tools()]
    names = [name for tool in functions for name in (tool["name"], *tool["parameters"].get("properties", {}))]
    values = [
        str(value) for task in environment.tasks("seed") for call in task.calls for _, value in leaves(call.arguments)
    ]
    known = [SLOT.sub(" ", phrase) for phrase in phrases] + [spaced(name) for name in names] + values
    return frozenset(words_of(" ".join([*known, *OPENERS, *CLOSERS, *CONNECTIVES, *NUMERALS]))) | FUNCTION_WORDS


def unknown_words(text: str, known: Collection[str]) -> list[str]:
    """The words of ``text`` that are not ``known``, unchanged. Numbers, plurals and possessives count as known."""
    return [
        word[0]
        for word in WORD.finditer(text)
        if not all(
            part in known or part.removesuffix("s") in known or part.isdecimal() or part == "s"
            for part in words_of(word[0])
        )
    ]


def variants(text: str, unknown: Collection[str]) -> Iterator[tuple[str, str]]:
    """Variants of ``text`` without some of its foreign words, or with UNHEARD instead of an unknown word.

    Each comes with the first word that it changes. If there are more than MOST foreign words, a variant lacks all of them, or
    all but negations. Yields nothing for a text that is longer than any sentence of a language.
    """
    if len(text) > LONGEST:
        return
    spans = sorted(_foreign(text, unknown))
    if len(spans) <= MOST:
        choices: Iterable[Sequence[Edit | None]] = product(*(_edits(text, *span) for span in spans))
    else:
        choices = [[(start, end, "") if word or every else None for start, end, word in spans] for every in (0, 1)]
    for chosen in choices:
        edits = [edit for edit in chosen if edit is not None]
        if sum(new == UNHEARD for _, _, new in edits) > 1:
            continue
        edited = text
        for start, end, new in reversed(edits):
            edited = edited[:start] + new + edited[end:]
        if edits:
            yield _tidy(edited), text[edits[0][0] : edits[0][1]].strip(" ,;:")


def _foreign(text: str, unknown: Collection[str]) -> Iterator[tuple[int, int, bool]]:
    """The beginning and end of each negation and ``unknown`` word, and whether it is a word."""
    ends = 0
    parts = {part for word in unknown for part in words_of(word)}
    negations = [(match.start(), match.end()) for match in NEGATION.finditer(text)]
    yield from ((start, end, False) for start, end in negations)
    for match in WORD.finditer(text):
        while negations and negations[0][0] <= match.start():
            ends = negations.pop(0)[1]
        if match.start() >= ends and not parts.isdisjoint(words_of(match[0])):
            yield match.start(), match.end(), True


def _edits(text: str, start: int, end: int, is_word: bool) -> list[Edit | None]:
    """The possible edits of the characters from ``start`` to ``end``: none, removal, removal with a comma, or UNHEARD."""
    comma = len(text[:start].rstrip(" ,;:"))
    return [None, (start, end, ""), (comma, end, ""), *([(start, end, UNHEARD)] if is_word else [])]


def shortened(text: str, new: str = "") -> Iterator[tuple[str, str]]:
    """``text`` with ``new`` instead of one of its words, and that word, for each word.

    Yields nothing for a text that is longer than any sentence of a language.
    """
    for match in WORD.finditer(text) if len(text) <= LONGEST else ():
        yield _tidy(text[: match.start()] + new + text[match.end() :]), match[0]


def _tidy(text: str) -> str:
    """``text`` without the spaces and commas that a missing word leaves."""
    closed = re.sub(r"\s+(?=[.,;:?!])", "", " ".join(text.split()))
    return re.sub(r"[,;:]+(?=[.?!,;:])", "", closed).strip(" ,;:")


def alike(one: Sequence[str], other: Collection[str]) -> bool:
    """Whether a word of ``one``, in some form, is among ``other``. Forms of a word have the same beginning."""
    return any(word in other or any(_same(word, form) for form in other) for word in one)


def _same(word: str, form: str) -> bool:
    return min(len(word), len(form)) >= 4 and word[:4] == form[:4]
