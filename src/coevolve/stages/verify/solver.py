"""A language model attempts accepted tasks and sees only their words. Its gate can only reject.

A solver fails if an instruction asks for something else than its reference, or omits details that only its author knew. A
success shows that the words suffice. A failure may also mean that the model is too weak, so this gate can lose sound tasks.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from coevolve.core.concurrency import in_order
from coevolve.core.records import Gate
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.endpoint.client import Endpoint
from coevolve.environments.environment import Environment
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.verify.judge import Judged, accepted

GATE = "solvable"


@dataclass
class Solver:
    """Plays at most ``attempts`` episodes per task, until the first success. ``counts`` counts lost replies by reason."""

    environment: Environment
    endpoint: Endpoint
    limits: Limits
    attempts: int
    seed: int
    counts: Counter[str]

    def judge(self, judged: Sequence[Judged], progress: Callable[[int], object]) -> list[Judged]:
        """Add a last gate to the accepted tasks. It fails if every attempt was answered and none succeeded."""
        tasks, verdicts = accepted(judged), {one.verdict.task_id: one.verdict for one in judged if one.verdict.accepted}
        for task, gate in zip(tasks, in_order(self._gate, tasks, self.endpoint.config.concurrency), strict=True):
            verdict = verdicts[task.task_id]
            gates = [*verdict.gates, gate]
            verdicts[task.task_id] = replace(verdict, accepted=gate.passed is not False, gates=gates)
            progress(1)
        return [replace(one, verdict=verdicts[one.verdict.task_id]) if one.verdict.accepted else one for one in judged]

    def _gate(self, task: Task) -> Gate:
        unanswered = 0
        for attempt in range(self.attempts):
            policy = EndpointPolicy(self.endpoint, self.endpoint.config.temperature)
            request = RolloutRequest(task, derive_seed(self.seed, "solver", task.task_id, attempt), sample=attempt)
            [episode] = rollout(policy, self.environment, [request], self.limits, workers=1)
            self.counts["out of budget"] += policy.exhausted
            self.counts["unanswered"] += len(policy.failures)
            if is_success(episode.trajectory.score):
                return Gate(GATE, True)
            unanswered += bool(policy.exhausted or policy.failures or not episode.trajectory.counts)
        if unanswered:
            return Gate(GATE, None, f"{unanswered} of {self.attempts} attempts had no valid result")
        failed = f"{self.endpoint.model} failed {self.attempts} of {self.attempts}"
        return Gate(GATE, False, f"not solvable from its words: {failed}")
