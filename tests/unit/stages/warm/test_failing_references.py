"""References that fail: stage `warm` says why, in the words of the environment."""

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.environments.methods import MethodEnvironment
from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits
from coevolve.stages.warm.config import Warm
from coevolve.stages.warm.warm_start import demonstrations


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
def test_reason_of_the_first_failing_reference_is_told(broken: bool, reason: str) -> None:
    class Torches(MethodEnvironment):
        name, simulator = "torches", Torch

        def questions(self, split):  # type: ignore[no-untyped-def]
            yield "light it", {"broken": broken}, [ToolCall("switch", {})]

        def reference(self, task: Task) -> list[list[ToolCall]]:
            return [[ToolCall("switch" if broken else "wait", {})]]

    with pytest.raises(CoevolveError) as caught:
        demonstrations(Warm(), Torches(), Limits.of(PolicySection()))
    assert reason in str(caught.value) and "coevolve env check" in str(caught.value)
