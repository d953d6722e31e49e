"""A rollout by several processes is bit-identical to one by a single process. A dead process is a one-line error."""

import os
import signal

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.workers import Local
from coevolve.policies.policy import Replicas
from coevolve.policies.transformers_policy import open_transformers
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests import POLICY
from tests.unit.stages.train.small import WORLD

REQUESTS = [RolloutRequest(task, seed) for seed, task in enumerate(WORLD.tasks("validation")[:20])]
LIMITS = Limits(max_turns=6, episode_tokens=300, reply_tokens=64, max_seconds=120.0, batch=6)
ARGUMENTS = (POLICY, 1, "float32", 1.0, {})


def test_any_number_of_processes_gives_the_same_bits_and_dead_ones_are_named() -> None:
    counted: list[int] = []
    alone = rollout(open_transformers(*ARGUMENTS), WORLD, REQUESTS, LIMITS)
    replicas = Replicas(Local(3), open_transformers, *ARGUMENTS)
    try:
        shared = rollout(replicas, WORLD, REQUESTS, LIMITS, progress=counted.append)
        assert sum(counted) == len(REQUESTS)
        assert [one.trajectory for one in shared] == [one.trajectory for one in alone]
        assert [one.replies for one in shared] == [one.replies for one in alone]  # log-probabilities as well
        pid = replicas.members[0].call.__self__.pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(CoevolveError, match=rf"process {pid} ended in .* \(signal SIGKILL\); if memory ran out"):
            rollout(replicas, WORLD, REQUESTS, LIMITS)
    finally:
        replicas.shutdown()
