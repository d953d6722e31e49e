"""References that fail: stage `base` says why, in the words of the environment."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.environments.methods import MethodEnvironment
from coevolve.environments.registry import REGISTERED, register
from coevolve.policies.config import PolicySection
from coevolve.stages.base.config import Base, Own
from coevolve.stages.base.own import make


class Torch:
    def __init__(self, broken: bool) -> None:
        self.broken, self.lit = broken, False

    def switch(self) -> str:
        """Switch it on."""
        if self.broken:
            raise RuntimeError("the battery is empty")
        self.lit = True
        return "it is on"

    def wait(self) -> str:
        """Wait."""
        return "it is dark"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (True, "the score 0, for switch is refused: RuntimeError: the battery is empty; "),
        (False, "it ends with done and the score 0; "),
    ],
)
def test_reason_of_the_first_failing_reference_is_told(
    broken: bool, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Torches(MethodEnvironment):
        name, simulator = "torches", Torch

        def questions(self, split):  # type: ignore[no-untyped-def]
            yield "light it", {"broken": broken}, [ToolCall("switch", {})]

        def reference(self, task: Task) -> list[list[ToolCall]]:
            return [[ToolCall("switch" if broken else "wait", {})]]

    monkeypatch.setattr("coevolve.environments.registry.REGISTERED", {**REGISTERED})
    register(Torches)
    own = Own(environment="torches", split="seed", tasks=4, policy=PolicySection())
    with pytest.raises(CoevolveError) as caught:
        make(Base(), tmp_path, own)
    assert reason in str(caught.value) and "set base.model to a pretrained model" in str(caught.value)
