"""Any environment of coevolve as an ORS server: `coevolve env serve NAME --protocol ors`. Runs in the Python that has openreward.

TRL's `OpenRewardSpec` plays it. Each answer has the score so far as its reward, of which the last counts. Tasks show their
instruction, but no reference.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from openreward.environments import Environment, Server, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel

from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.core.task import Task
from coevolve.environments.wire import SAY_TOOL
from coevolve.environments.worker import WorkerEnvironment
from coevolve.trainers.replay import Replay, Request, call, say, shared_tools, told
from coevolve.trainers.serving import Offer, serve

TRAIN = "train"  # the split of the tasks of a file, or else of the training tasks
PANELS = ("validation", "test")


class Arguments(BaseModel, extra="allow"):
    """The arguments of a call, which the environment itself checks. ``schema`` is the tool's."""

    parameters: ClassVar[dict[str, Any]]

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        return cls.parameters


class OrsEpisode(Environment):  # type: ignore[misc]
    """An episode. ``application`` makes a subclass with the tasks of each split and a method for each tool."""

    world: ClassVar[WorkerEnvironment]
    splits: ClassVar[Mapping[str, Sequence[Task]]]

    def __init__(self, task_spec: Any, secrets: Any) -> None:
        super().__init__(task_spec)
        self._started: Replay | None = None

    def setup(self) -> None:
        try:
            task = self.splits[self.task_spec["split"]][self.task_spec["index"]]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"expected a task_spec of /tasks, with split and index; got {self.task_spec}") from None
        self._started = Replay(self.world, task)

    @property
    def _episode(self) -> Replay:
        if self._started is None:
            raise CoevolveError("the session has not started")
        return self._started

    def teardown(self) -> None:
        if self._started is not None:  # a client may leave before
            self._started.close()

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=self._episode.turn.content)]

    @classmethod
    def name(cls) -> str:
        return cls.world.name

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name=name, type=name if name in (TRAIN, *PANELS) else "test") for name in cls.splits]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [
            {"id": task.task_id, "instruction": task.turns[0], "split": split, "index": index}
            for index, task in enumerate(cls.splits[split])
        ]

    def answer(self, request: Request) -> ToolOutput:
        turn = self._episode.answer(request)
        reward = self._episode.score().reward
        return ToolOutput(blocks=[TextBlock(text=told(turn))], reward=reward, finished=turn.done)


def _method(function: Mapping[str, Any]) -> Callable[..., ToolOutput]:
    name = function["name"]
    shown = type(name, (Arguments,), {"parameters": function["parameters"], "__module__": __name__})

    def method(self: OrsEpisode, arguments: Any) -> ToolOutput:
        # TRL sends null for each argument that the model left out
        given = {key: value for key, value in arguments.model_dump().items() if value is not None}
        return self.answer(say(str(given.get("text", ""))) if function is SAY_TOOL else call(name, given))

    method.__annotations__ = {"arguments": shown, "return": ToolOutput}
    method.__doc__ = function["description"]
    return tool(method)  # type: ignore[no-any-return]


def application(offer: Offer) -> Any:
    """The server's web application."""
    splits = {TRAIN: offer.checked or offer.world.tasks("seed")}
    splits |= {panel: offer.world.tasks(panel) for panel in offer.world.panels}
    members: dict[str, Any] = {"world": offer.world, "splits": splits}
    for function in (SAY_TOOL, *shared_tools(offer.world, splits[TRAIN])):
        members[function["name"]] = _method(function)
    return Server([type("OrsEpisode", (OrsEpisode,), members)]).app


def main() -> None:
    print(
        "openreward's client needs OPENREWARD_API_URL and OPENREWARD_SESSION_URL, both with the address of this server"
    )
    serve("ORS", TRAIN, application)


if __name__ == "__main__":
    guard(main)
