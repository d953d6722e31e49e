"""Stage `verify`: the environment judges every candidate, and the new policy plays the accepted tasks to measure pass rates.

Reads data/t/candidates.jsonl, and data/next/attempts.jsonl for the kinds of tasks that the agent solved. Writes
data/t/verified/verdicts.jsonl, data/t/verified/accepted.jsonl, and the task generator's specs with their outcomes to
data/next/generations.jsonl. data/t/requests/verify holds every request to a solver at an endpoint, its reply and cost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.attempts import read_attempts
from coevolve.core.interruptions import hopeless
from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.records import Exploration, Generation
from coevolve.core.stage_summary import write_summary
from coevolve.core.task import Task
from coevolve.core.workers import Engine, engine
from coevolve.endpoint.spending import Meter, metered
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import fingerprint_of, open_environment
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.policies.loading import playing
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits
from coevolve.stages.generate.rewards import settled, with_generator
from coevolve.stages.schema import Params
from coevolve.stages.verify.judge import Judged, accepted, causes, interruptions, read_lines, summary, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import pass_counts, with_pass_rates
from coevolve.stages.verify.select import check_left, notes, select, solved_kinds
from coevolve.stages.verify.solver import Solver


def main(params: Params, t: int) -> None:
    """Each step takes the judged candidates and returns them with its part of the verdict."""
    environment = open_environment(params.environment)
    known_tasks = read_tasks(Paths.tasks(t), environment.name)
    with engine(params.compute, partial(fingerprint_of, params.environment)) as workers:
        judged = _judge(params, t, environment, known_tasks, workers)
        hopeless(causes(judged), len(judged), "candidates")
        judged, meter = _solve(params, t, environment, judged)
        judged = _play(params, t, environment, judged, workers)
    specs, explorations = read_jsonl(Paths.specs(t), Generation), read_jsonl(Paths.explorations(t), Exploration)
    generations = settled(specs, explorations, judged)
    write_jsonl(Paths.generations(t + 1), [*read_jsonl(Paths.generations(t), Generation), *generations])
    remarks = interruptions(judged)
    if (selection := params.verify.select) is not None:
        solved = solved_kinds(known_tasks, read_attempts(Paths.attempts(t + 1)))
        judged = select(judged, selection, solved)
        remarks += notes(judged, selection.keep, len(environment.tools()))
    write_jsonl(Paths.verified(t) / "verdicts.jsonl", (one.verdict for one in judged))
    write_jsonl(Paths.verified(t) / "accepted.jsonl", accepted(judged))
    write_summary(with_generator(summary(t, judged, meter, remarks), generations, params.generate))
    kept = len(accepted(judged))
    print("\n".join([f"{Paths.verified(t)}: {kept} of {len(judged)} candidates accepted{meter}", *remarks]))
    check_left(t, sum(one.count is not None for one in judged), kept)


def _judge(
    params: Params, t: int, environment: Environment, known_tasks: Sequence[Task], workers: Engine | None
) -> list[Judged]:
    """The environment judges the candidates."""
    config, lines = params.verify, read_lines(Paths.candidates(t))
    panels = {name: read_tasks(Paths.panel(name), environment.name) for name in Paths.panel_names(environment.panels)}
    library = Library(known_tasks, panels, config.near_duplicate)
    with bar(len(lines), f"verify {t}", "candidates") as progress:
        enabled, words = config.enabled, config.words
        return verify(
            params.environment, lines, library, engine=workers, enabled=enabled, words=words, progress=progress.update
        )


def _solve(params: Params, t: int, environment: Environment, judged: list[Judged]) -> tuple[list[Judged], Meter]:
    """The model at the endpoint attempts the accepted tasks, if ``verify.solver_attempts`` is above 0."""
    attempts = params.verify.solver_attempts
    with (
        bar(len(accepted(judged)) * (attempts > 0), f"solver {t}", "tasks") as progress,
        metered(params.endpoint, attempts > 0, Paths.requests(t, "verify"), progress) as meter,
    ):
        if meter.endpoint is not None:
            limits, seed = Limits.of(params.policy), params.seed
            solver = Solver(environment, meter.endpoint, limits, attempts, seed, meter.counts)
            judged = solver.judge(judged, progress.update)
    return judged, meter


def _play(
    params: Params, t: int, environment: Environment, judged: list[Judged], workers: Engine | None
) -> list[Judged]:
    """The policy, if there is one, plays the accepted tasks, if ``verify.pass_rate_samples`` is above 0."""
    played = params.trains or params.verify.policy is not None
    samples, tasks = params.verify.pass_rate_samples * played, accepted(judged)
    if not tasks or not samples:
        return judged
    limits = Limits.of(params.policy)
    with (
        bar(len(tasks) * samples, f"pass rates {t}", "episodes") as progress,
        _player(params, t, workers, progress) as policy,
    ):
        counts = pass_counts(policy, environment, tasks, limits, samples, params.seed, progress.update)
    return with_pass_rates(judged, counts)


@contextmanager
def _player(params: Params, t: int, workers: Engine | None, progress: Any) -> Iterator[Policy | Replicas]:
    """The policy that ``verify.policy`` names, or else policies/next."""
    given, temperature = params.verify.policy, params.train.temperature
    if given is None or "://" not in given:
        with playing(Path(given) if given else Paths.policy(t + 1), params.policy, temperature, workers) as policy:
            yield policy
        return
    served = params.endpoint.model_copy(update={"url": given, "temperature": temperature})
    with metered(served, True, Paths.requests(t, "verify") / "policy", progress) as meter:
        assert meter.endpoint is not None
        yield EndpointPolicy(meter.endpoint, temperature)
