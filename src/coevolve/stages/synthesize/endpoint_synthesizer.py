"""An LLM as synthesizer: it writes tasks for chains of calls that the environment accepted.

It selects real calls and describes them in words. It cannot invent a call, because it names calls by number.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from coevolve.core.concurrency import in_order
from coevolve.core.records import Candidate, Exploration
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.endpoint.client import Exhausted, Failed
from coevolve.endpoint.spending import Meter
from coevolve.endpoint.structured import Broken, ask_json
from coevolve.environments.chains import observed
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.prompts.prompt import prompt, quoted, quoted_call, quoted_lines
from coevolve.stages.signals.extract import KINDS
from coevolve.stages.synthesize.synthesizer import candidate

EXAMPLES = 3  # tasks of users in the prompt, rather of the same tools, to show how they speak
OBSERVATION = 600  # most characters of an observation in the prompt
ANSWER = """- "answer": what the user asked to be told, exactly as one of the calls returned it, or null if nothing was asked.
"""


class WrittenTurn(BaseModel):
    instruction: Annotated[str, Field(min_length=1, max_length=4000)]
    calls: Annotated[list[int], Field(min_length=1)]


class WrittenTask(BaseModel):
    turns: Annotated[list[WrittenTurn], Field(min_length=1, max_length=6)]
    asks: Annotated[list[int], Field(min_length=1)]
    answer: str | int | float | bool | None = None


class WrittenTasks(BaseModel):
    """The reply that the model must return: tasks over the numbered calls."""

    tasks: Annotated[list[WrittenTask], Field(min_length=1, max_length=3)]


class EndpointSynthesizer:
    """See ``coevolve.stages.synthesize.synthesizer.Synthesizer``. ``counts`` counts unusable replies by reason."""

    def __init__(self, environment: Environment, tasks: Sequence[Task], seed: int, meter: Meter) -> None:
        assert meter.endpoint is not None
        self._knowledge = learn(environment, tasks)
        self._tasks = tasks
        self._seed = seed
        self._endpoint, self.counts = meter.endpoint, meter.counts

    def abstract(self, explorations: Sequence[Exploration]) -> Iterator[Iterator[Candidate]]:
        for candidates in in_order(self._write, explorations, self._endpoint.config.concurrency):
            yield iter(candidates)

    def close(self) -> None:
        """Does nothing: this synthesizer holds nothing open."""

    def _write(self, exploration: Exploration) -> list[Candidate]:
        calls = [call for call in exploration.calls if call.ok and call.name != self._knowledge.terminal]
        if not calls:
            return []
        template = prompt("synthesize")
        rng = rng_for("examples", self._seed, exploration.exploration_id)
        own = [task for task in self._tasks if task.provenance is None] or list(self._tasks)
        tools = {call.name for call in calls}
        examples = sorted(rng.sample(own, len(own)), key=lambda task: -len(tools & set(task.tools)))[:EXAMPLES]
        reflection, kind = exploration.reflection, exploration.kind
        text = template.fill(
            chain="\n".join(
                f"{number}. {quoted_call(call.name, call.arguments)} -> {quoted(call.observation, OBSERVATION)}"
                for number, call in enumerate(calls, 1)
            ),
            why=quoted(reflection.why) if reflection else KINDS[kind].meaning if kind else "unknown",
            ending=ANSWER if self._knowledge.answer else "",
            example=quoted_lines(turn for task in examples for turn in task.turns),
        )
        try:
            reply = ask_json(
                self._endpoint,
                [{"role": "user", "content": text}],
                WrittenTasks,
                derive_seed("write", self._seed, exploration.exploration_id),
                self.counts,
                check=lambda reply: _check(reply, calls),
            )
        except (Broken, Failed):
            return []
        except Exhausted:
            self.counts["out of budget"] += 1
            return []
        return [self._candidate(exploration, calls, task, template.version) for task in reply.tasks]

    def _candidate(
        self, exploration: Exploration, calls: Sequence[CallOutcome], written: WrittenTask, version: str
    ) -> Candidate:
        reference = [
            [ToolCall(calls[number - 1].name, calls[number - 1].arguments) for number in turn.calls]
            for turn in written.turns
        ]
        positions = [
            [turn, row]
            for turn, written_turn in enumerate(written.turns)
            for row, number in enumerate(written_turn.calls)
            if number in written.asks
        ]
        names = [reference[turn][row].name for turn, row in positions]
        if self._knowledge.terminal:
            answered = written.answer is not None and self._knowledge.answer is not None
            if answered:
                positions.append([len(reference) - 1, len(reference[-1])])
                names.append("ask")
            arguments = {str(self._knowledge.answer): str(written.answer)} if answered else {}
            reference[-1].append(ToolCall(self._knowledge.terminal, arguments))
        turns = [turn.instruction for turn in written.turns]
        return candidate(exploration, turns, reference, positions, names, version)


def _check(written: WrittenTasks, calls: Sequence[CallOutcome]) -> None:
    """Check the rules that a JSON schema cannot express."""
    for task in written.tasks:
        numbers = [number for turn in task.turns for number in turn.calls]
        if not all(1 <= number <= len(calls) for number in numbers):
            raise ValueError(f"calls are numbered from 1 to {len(calls)}")
        if numbers != sorted(set(numbers)):
            raise ValueError("the calls of a task must be in their order, each once")
        if not set(task.asks) <= set(numbers):
            raise ValueError("asks must be among the calls of the task")
        if task.answer is not None:
            returned = {str(value) for number in numbers for _, value in observed(calls[number - 1].observation)}
            if str(task.answer) not in returned:
                raise ValueError("answer must be a value that one of the task's calls returned")


make = EndpointSynthesizer
