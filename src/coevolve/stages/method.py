"""The three methods of the loop. They differ in what an agent's failures become, and each is a set of defaults.

A key that params.yaml sets overrides the method's default, so methods combine. Each method also has essential keys, which
params.yaml cannot override.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.stages.train.config import config_of
from coevolve.stages.train.learners import LEARNERS

COEVOLVE, GENENV, COEVOLVING_AGENTS = "coevolve", "genenv", "coevolving_agents"


@dataclass(frozen=True, slots=True)
class Method:
    """``defaults``: key → value. ``essential``: key → a check of a value, and the expected values in words."""

    defaults: Mapping[str, Any]
    essential: Mapping[str, tuple[Callable[[Any], bool], str]] = field(default_factory=dict)


def _by_pairs(learner: Any) -> bool:
    return learner in LEARNERS.names() and config_of(learner).by_pairs


METHODS: Mapping[str, Method] = {
    # arXiv 2604.15840: tasks synthesized around tasks that the agent forgets or sometimes solves, and rare tool patterns
    COEVOLVE: Method({}),
    # arXiv 2512.19682: a task generator, rewarded for tasks that the agent solves about half the time
    GENENV: Method(
        {"explore.guidance": "generator", "generate.model": "tiny"},
        {
            "explore.guidance": (lambda value: value == "generator", "generator"),
            "generate.model": (lambda value: value != "none", "tiny, a path, or a name on the hub"),
        },
    ),
    # arXiv 2511.22254: a failure agent, whose near misses are the rejected side of preference pairs
    COEVOLVING_AGENTS: Method(
        {"train.learner": "dpo"},
        {
            "train.learner": (_by_pairs, "a learner that learns from pairs, such as dpo"),
            "pairs.hard": (lambda value: value != 0, "a share above 0"),
        },
    ),
}


def with_method(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The ``raw`` parameters, with the method's defaults for keys that they do not set."""
    values = dict(raw)
    name = values.get("method", COEVOLVE)
    if not isinstance(name, str) or name not in METHODS:
        return values  # the check of the key `method` reports the error
    for key, (keeps, expected) in METHODS[name].essential.items():
        section, _, inner = key.partition(".")
        given = values.get(section)
        if isinstance(given, dict) and inner in given and not keeps(given[inner]):
            raise CoevolveError(
                f"method: {name} and {key}: {given[inner]} do not go together: expected {expected}; remove {key}, or choose "
                "another method"
            )
    for key, default in METHODS[name].defaults.items():
        section, _, inner = key.partition(".")
        given = values.get(section, {})
        if isinstance(given, dict):
            values[section] = {inner: default, **given}
    return values
