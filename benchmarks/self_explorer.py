"""Measure a small model as explorer and author of tasks, after it has learned from the scripted parts.

    python benchmarks/self_explorer.py teach policies/0 OUT                # trains OUT/policy; resumable
    transformers serve OUT/policy --port 8000                             # or vLLM's server, in another terminal
    python benchmarks/self_explorer.py measure OUT/policy http://127.0.0.1:8000/v1

Both read iteration 0 of the finished run in this folder: its tasks, its signals and the agent's attempts. `teach` writes what
the scripted explorer and the scripted synthesizer did for requests of one seed as answers to the prompts that an LLM gets: a
reflection, an exploration, a wording. `measure` sends requests of another seed to the model and prints, beside the scripted
parts, the replies that keep the contract and the tasks that the environment accepts. The panels of the run judge overlap.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coevolve.core import arithmetic

arithmetic.pin()

from coevolve.core.io import read_jsonl, read_tasks  # noqa: E402
from coevolve.core.launch import Launch  # noqa: E402
from coevolve.core.paths import Paths  # noqa: E402
from coevolve.core.records import Candidate, Exploration, Signal  # noqa: E402
from coevolve.core.task import CallOutcome, Task, ToolCall  # noqa: E402
from coevolve.core.trajectories import StopReason, Trajectory, read_trajectories  # noqa: E402
from coevolve.endpoint.client import open_endpoint  # noqa: E402
from coevolve.endpoint.messages import Answer, Ask, RawCall  # noqa: E402
from coevolve.environments.environment import Environment  # noqa: E402
from coevolve.environments.fingerprint import open_environment  # noqa: E402
from coevolve.environments.knowledge import Knowledge, learn  # noqa: E402
from coevolve.policies.agent_prompt import render_call  # noqa: E402
from coevolve.stages.explore.endpoint_explorer import EndpointExplorer  # noqa: E402
from coevolve.stages.explore.explorer import explore  # noqa: E402
from coevolve.stages.explore.requests import Request, requests  # noqa: E402
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer  # noqa: E402
from coevolve.stages.schema import Params, load  # noqa: E402
from coevolve.stages.synthesize.endpoint_synthesizer import EndpointSynthesizer  # noqa: E402
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer  # noqa: E402
from coevolve.stages.synthesize.synthesizer import synthesize  # noqa: E402
from coevolve.stages.train.config import Train  # noqa: E402
from coevolve.stages.train.learner import Job, Shared  # noqa: E402
from coevolve.stages.verify.judge import accepted, verify  # noqa: E402
from coevolve.stages.verify.library import Library  # noqa: E402
from coevolve.stages.warm.config import Warm  # noqa: E402
from coevolve.stages.warm.warm_start import Demonstrations  # noqa: E402
from coevolve.stages.warm.warm_start import learn as imitate  # noqa: E402

TEACHING, MEASURING = 1, 2  # seeds of the requests
PATIENCE = 900.0  # seconds: a guard against calls that never end


class ScriptedTeacher:
    """Answers an LLM's requests as the scripted parts would, and keeps the conversations.

    ``exploration`` is what the scripted explorer found for the request at hand, and ``wording`` the scripted author's task.
    """

    def __init__(self, params: Params) -> None:
        self.config = params.endpoint.model_copy(update={"concurrency": 1})
        self.conversations: dict[str, list[Trajectory]] = {"reflection": [], "exploration": [], "wording": []}
        self.tools: dict[str, list[dict[str, Any]]] = {}
        self.exploration: Exploration
        self.weakness: list[str]
        self.wording: dict[str, Any] | None = None

    def chat(self, ask: Ask) -> Answer:
        if ask.tools:
            return self._act(ask)
        reply = self._reflection() if self.wording is None else self.wording
        text = json.dumps(reply, ensure_ascii=False)
        self._keep("reflection" if self.wording is None else "wording", ask, text)
        return Answer(text, [], "stop", 0, 0)

    def _reflection(self) -> dict[str, Any]:
        missing = " and ".join(self.weakness[:2]) or "any tool"
        used = list(dict.fromkeys(call.name for call in self.exploration.calls))
        return {
            "what_failed": f"The agent did not use {missing}.",
            "where": f"the call of {self.weakness[0]}" if self.weakness else "the first call",
            "why": f"It does not know when a request needs {missing}.",
            "try": [f"use {name}" if number == 0 else f"then use {name}" for number, name in enumerate(used[:5])],
        }

    def _act(self, ask: Ask) -> Answer:
        done = sum(message["role"] == "assistant" for message in ask.messages)
        if done < len(self.exploration.calls):
            call = self.exploration.calls[done]
            return Answer("", [RawCall(call.name, json.dumps(call.arguments))], "tool_calls", 0, 0)
        self._keep("exploration", ask, "done")
        return Answer("done", [], "stop", 0, 0)

    def _keep(self, kind: str, ask: Ask, reply: str) -> None:
        messages = [*map(_as_text, ask.messages), {"role": "assistant", "content": reply}]
        kept = self.conversations[kind]
        name = f"{kind}-{len(kept)}"
        self.tools[name] = ask.tools
        kept.append(Trajectory(name, name, 0, 0, 0, 0, messages, [], 1.0, StopReason.DONE))


def _as_text(message: dict[str, Any]) -> dict[str, Any]:
    """An OpenAI message as rollouts keep it: calls in the text."""
    calls = [one["function"] for one in message.get("tool_calls", [])]
    text = "\n".join(render_call(ToolCall(one["name"], json.loads(one["arguments"]))) for one in calls)
    return {"role": message["role"], "content": text or message["content"]}


def _wording(candidate: Candidate, calls: Sequence[CallOutcome], terminal: str | None) -> dict[str, Any] | None:
    """The scripted author's task as the contract asks for it, over the numbered ``calls``; None if it has no asked call."""
    task, numbers, after = candidate.task, [], 0
    for call in task.calls:
        if call.name == terminal:
            continue
        same = [
            place
            for place in range(after, len(calls))
            if (calls[place].name, calls[place].arguments) == (call.name, call.arguments)
        ]
        if not same:
            return None
        after = same[0] + 1
        numbers.append(after)
    asks = [numbers[row] for _, row in candidate.asks if row < len(numbers)]
    answer = next((value for call in task.calls if call.name == terminal for value in call.arguments.values()), None)
    turns = [{"instruction": task.turns[0], "calls": numbers}]
    return {"tasks": [{"turns": turns, "asks": asks, "answer": answer}]} if asks and len(task.turns) == 1 else None


@dataclass(frozen=True)
class Finished:
    """Iteration 0 of the finished run in this folder."""

    params: Params
    environment: Environment
    tasks: list[Task]
    knowledge: Knowledge
    signals: list[Signal]
    trajectories: list[Trajectory]

    @classmethod
    def here(cls) -> "Finished":
        params = load(Path("params.yaml"))
        environment = open_environment(params.environment)
        tasks = read_tasks(Paths.tasks(0), params.environment, least=1)
        trajectories = list(read_trajectories(Paths.trajectories(0)))
        signals = read_jsonl(Paths.signals(0), Signal)
        return cls(params, environment, tasks, learn(environment, tasks, trajectories), signals, trajectories)

    def requests(self, count: int, seed: int) -> list[Request]:
        config = self.params.explore.model_copy(update={"explorations": count, "guidance": "signals"})
        return requests(self.environment, self.tasks, self.trajectories, self.signals, config, 0, seed)

    def scripted(self, asked: Sequence[Request]) -> list[Exploration]:
        explorer = ScriptedExplorer(self.environment, self.knowledge, self.params.explore)
        return explore(explorer, asked, lambda count: None)

    def judged(self, candidates: Sequence[Candidate]) -> tuple[int, str]:
        """The number of accepted candidates, and a sentence with the gates that refused the others."""
        panels = {panel: self.environment.tasks(panel) for panel in self.environment.panels}
        library = Library(self.tasks, panels, self.params.verify.near_duplicate)
        judged = list(verify(self.environment.name, [json.dumps(asdict(one)) for one in candidates], library))
        gates = [gate.name for verdict, _ in judged for gate in verdict.gates if gate.passed is False]
        passed = len(accepted(judged))
        return passed, f"{passed} of {len(judged)} candidates accepted, the others refused by {dict(Counter(gates))}"


def teach(start: Path, out: Path, count: int) -> None:
    """Train ``out``/policy from the model directory ``start`` on the scripted parts' answers to ``count`` requests."""
    run = Finished.here()
    teacher = ScriptedTeacher(run.params)
    explorer = EndpointExplorer(run.environment, teacher, run.knowledge, run.params.explore, PATIENCE, Counter())  # type: ignore[arg-type]
    asked = {request.exploration_id: request for request in run.requests(count, TEACHING)}
    author = ScriptedSynthesizer(run.environment, run.tasks, TEACHING)
    writer = EndpointSynthesizer(run.environment, run.tasks, teacher, TEACHING, Counter())  # type: ignore[arg-type]
    for exploration in run.scripted(list(asked.values())):
        request = asked[exploration.exploration_id]
        teacher.exploration, teacher.wording = exploration, None
        teacher.weakness = [name for name in request.weakness if name != run.knowledge.terminal]
        [found] = explorer.explore([request])
        calls = [call for call in found.calls if call.name != run.knowledge.terminal]
        for candidate in next(author.abstract([found])):
            teacher.wording = _wording(candidate, calls, run.knowledge.terminal)
            if teacher.wording:
                list(next(writer.abstract([found])))
                break
    author.close()
    shown = teacher.conversations
    print("conversations: " + ", ".join(f"{len(kept)} {kind}s" for kind, kept in shown.items()))
    examples = Demonstrations([one for kept in shown.values() for one in kept], [], teacher.tools)
    job = Job(
        0, TEACHING, start.resolve(), [], out / "policy", out / "none", out / "none", out / "training", start.resolve()
    )
    acting = run.params.policy.model_copy(update={"episode_tokens": 2048})
    train = Train(lora=run.params.train.lora)
    config = Warm(steps=len(examples.right) // 4, micro_batch=2, learning_rate=0.001, adapters=True)
    imitate(config, Shared(train, acting, Launch()), examples, job, lambda step, figures: print(step, figures["loss"]))


def measure(model: str, url: str, count: int, log: Path) -> None:
    """Print how ``model`` at ``url`` explores and writes for ``count`` requests, beside the scripted parts."""
    run = Finished.here()
    asked = run.requests(count, MEASURING)
    settings = {
        "url": url,
        "model": model,
        "temperature": 0.0,
        "concurrency": 4,
        "timeout": PATIENCE,
        "reply_tokens": 400,
    }
    endpoint = open_endpoint(run.params.endpoint.model_copy(update=settings), log)
    reflecting, writing = Counter[str](), Counter[str]()
    explorer = EndpointExplorer(run.environment, endpoint, run.knowledge, run.params.explore, PATIENCE, reflecting)
    found = explore(explorer, asked, lambda count: None)
    spent = endpoint.spend
    print(f"reflections: {_kept(len(asked), reflecting)}; explorations with calls: {len(found)} of {len(asked)}")
    writer = EndpointSynthesizer(run.environment, run.tasks, endpoint, MEASURING, writing)
    candidates = synthesize(writer, found, 3 * count, lambda count: None)
    print(f"wordings: {_kept(len(found), writing)}")
    tokens = endpoint.spend.prompt_tokens + endpoint.spend.completion_tokens
    passed, verdict = run.judged(candidates)
    print(verdict)
    print(
        f"tokens: {endpoint.spend}; {spent} of them to explore; {1000 * passed / max(tokens, 1):.4f} accepted per 1,000 tokens"
    )
    endpoint.close()
    plain = run.scripted(asked)
    author = ScriptedSynthesizer(run.environment, run.tasks, MEASURING)
    candidates = synthesize(author, plain, 3 * count, lambda count: None)
    print(
        f"scripted parts, no tokens: explorations with calls: {len(plain)} of {len(asked)}; {run.judged(candidates)[1]}"
    )


def _kept(asked: int, counts: Counter[str]) -> str:
    """How many of ``asked`` first replies kept the contract."""
    first = asked - counts["repaired"] - counts["dropped"]
    others = {name: number for name, number in counts.items() if number}
    return f"{first} of {asked} kept the contract at once ({others})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    teaching = parts.add_parser("teach")
    teaching.add_argument("start", type=Path, metavar="MODEL")
    teaching.add_argument("out", type=Path, metavar="OUT")
    teaching.add_argument("--count", type=int, default=96, help="requests to learn from (default: 96)")
    measuring = parts.add_parser("measure")
    measuring.add_argument("model", metavar="MODEL")
    measuring.add_argument("url", metavar="URL")
    measuring.add_argument("--count", type=int, default=32, help="requests (default: 32)")
    measuring.add_argument("--log", type=Path, default=Path("scratch/self_explorer.jsonl"))
    args = parser.parse_args()
    if args.part == "teach":
        teach(args.start, args.out, args.count)
    else:
        measure(args.model, args.url, args.count, args.log)


if __name__ == "__main__":
    main()
