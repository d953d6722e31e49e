"""The chat templates in TRL's package that deal with tools, and the table of what the doctor says about each.

`python -m tests.families` prints the table of docs/chat-templates.md.
"""

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.policies.agent_prompt import Renderer
from coevolve.rollout import Limits
from coevolve.stages.train.chat_template import ABSENT, BROKEN, Diagnosis, diagnose, load_tokenizer
from coevolve_environments.miniworld.miniworld_environment import Miniworld

# values that some families cannot write: the name in the table, the type in a schema, and the value
VALUES: list[tuple[str, str, Any]] = [
    ("an apostrophe", "string", "it's"), ("a quote", "string", '"a"'), ("lines", "string", "a\nb"), ("digits", "string", "7"),
    ("a space at the end", "string", "a "), ("a number", "integer", 7), ("a fraction", "number", 0.5),
    ("a truth value", "boolean", True), ("a list", "array", ["a", 1]), ("an object", "object", {"a": [1]}),
]  # fmt: skip
LIMITS = Limits(20, 10**6, 2**12, 600.0)
# Its checkpoint ships a response template; this one is ours, for the same protocol.
MUSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|start|>assistant",
    "fields": {
        "reasoning_content": {
            "open_pattern": r"\s*to=self<\|message\|>",
            "close_pattern": r"<\|eom\|>(?:<\|start\|>assistant)?",
        },
        "tool_calls": {
            "open_pattern": r'\s*to=[^<\s]+<\|message\|><atem:function_calls>\s*<atem:invoke name="(?P<name>[^"]+)">',
            "close_pattern": r"</atem:invoke>\s*</atem:function_calls>(?:<\|eom\|>(?:<\|start\|>assistant)?)?",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r'<atem:parameter name="(?P<key>[^"]+)">(?P<value>.*?)</atem:parameter>',
                "value_parser": {"name": "text", "args": {"strip": False}},
            },
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"open_pattern": r"\s*to=user<\|message\|>", "close_pattern": r"<\|eot\|>"},
    },
}
SHIPPED = {"muse_glimmer": MUSE}


def files() -> dict[str, Path]:
    """The original templates that name tools, by family."""
    package = find_spec("trl")
    assert package and package.submodule_search_locations
    found = sorted(Path(package.submodule_search_locations[0]).glob("chat_templates/*.jinja"))
    return {file.stem: file for file in found if not file.stem.endswith("_training") and "tool" in file.read_text()}


def tokenizer(family: str) -> Any:
    """A tokenizer of bytes and the template's special tokens."""
    made = load_tokenizer(str(files()[family]))
    made.response_template = SHIPPED.get(family)
    return made


@cache
def findings(family: str) -> tuple[Diagnosis, ...]:
    """What the doctor says; a refusal is a finding too."""
    try:
        return tuple(diagnose(tokenizer(family), {}, Miniworld(), "seed", LIMITS))
    except CoevolveError as error:
        return (Diagnosis("template", BROKEN, str(error).partition(": ")[2], ""),)


def broken(family: str) -> list[str]:
    return [finding.text for finding in findings(family) if finding.state == BROKEN]


def changed(family: str) -> Iterator[str]:
    """Names of the values that the family's form changes."""
    renderer = Renderer(tokenizer(family))
    for name, kind, value in VALUES:
        call = ToolCall("look_up", {"value": value})
        parameters = {"type": "object", "properties": {"value": {"type": kind}}}
        tool = {"type": "function", "function": {"name": "look_up", "description": "", "parameters": parameters}}
        if renderer.said(*renderer.written(call), [tool]).calls != [call]:
            yield name


def rows() -> Iterator[str]:
    yield "| template | verdict | remarks |"
    yield "|---|---|---|"
    for family in files():
        found = {finding.name: finding for finding in findings(family)}
        remarks = [text.split("; use ")[0].split(": ")[0] for text in broken(family)[:1]]
        if not remarks:
            if family in SHIPPED:
                remarks.append("with a response template written for the test: TRL says that its checkpoint ships one")
            if found["thoughts"].state == ABSENT:
                remarks.append("leaves out earlier thoughts after a new turn of the user")
            if lost := ", ".join(changed(family)):
                remarks.append(f"changes texts with {lost}")
            if "date" in found:
                remarks.append("writes today's date: set `date_string`")
        yield f"| `{family}` | {'refused' if broken(family) else 'ok'} | {'; '.join(remarks)} |"


if __name__ == "__main__":
    print("\n".join(rows()))
