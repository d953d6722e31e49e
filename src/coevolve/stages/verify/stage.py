"""Stage `verify`: the environment judges every candidate, and the new policy plays the accepted tasks to measure pass rates.

Reads data/t/candidates.jsonl, and data/next/attempts.jsonl for the kinds of tasks that the agent solved. Writes
data/t/verified/verdicts.jsonl, data/t/verified/accepted.jsonl, and the task generator's specs with their outcomes to
data/next/generations.jsonl. data/t/requests/verify holds every request to a solver at an endpoint, its reply and cost.
"""

from collections.abc import Sequence
from functools import partial

from coevolve.core.attempts import read_attempts
from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.records import Exploration, Generation
from coevolve.core.stage_summary import write_summary
from coevolve.core.task import Task
from coevolve.core.workers import Engine, engine
from coevolve.endpoint.spending import metered
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import fingerprint_of, open_environment
from coevolve.environments.mixture import shares_of
from coevolve.policies.loading import playing
from coevolve.rollout import Limits
from coevolve.stages.generate.spec_outcomes import settled, with_generator
from coevolve.stages.schema import Params
from coevolve.stages.verify.judge import accepted, read_lines, summary, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_counts import PassCount
from coevolve.stages.verify.pass_rates import pass_counts, with_pass_rate
from coevolve.stages.verify.select import check_left, notes, select, solved_kinds
from coevolve.stages.verify.solver import Solver


def main(params: Params, t: int) -> None:
    config = params.verify
    environment = open_environment(params.environment)
    known_tasks = read_tasks(Paths.tasks(t), params.environment)
    panels = {name: read_tasks(Paths.panel(name), params.environment) for name in environment.panels}
    library = Library(known_tasks, panels, config.near_duplicate)
    lines = read_lines(Paths.candidates(t))
    with engine(params.compute, partial(fingerprint_of, params.environment)) as workers:
        with bar(len(lines), f"verify {t}", "candidates") as progress:
            judged = verify(
                params.environment,
                lines,
                library,
                engine=workers,
                enabled=config.enabled,
                words=config.words,
                progress=progress.update,
            )
        solving, folder = config.solver_attempts > 0, Paths.requests(t, "verify")
        with (
            bar(len(accepted(judged)) * solving, f"solver {t}", "tasks") as progress,
            metered(params.endpoint, solving, folder, progress) as meter,
        ):
            if meter.endpoint is not None:
                limits, seed = Limits.of(params.policy), params.seed
                solver = Solver(environment, meter.endpoint, limits, config.solver_attempts, seed, meter.counts)
                judged = solver.judge(judged, progress.update)
        counts = _counts(params, t, environment, accepted(judged), workers)
    judged = [with_pass_rate(verdict, task, counts) for verdict, task in judged]
    specs = read_jsonl(Paths.specs(t), Generation)
    generations = settled(specs, read_jsonl(Paths.explorations(t), Exploration), judged, counts)
    write_jsonl(Paths.generations(t + 1), [*read_jsonl(Paths.generations(t), Generation), *generations])
    remarks: list[str] = []
    if config.select is not None:
        solved = solved_kinds(known_tasks, read_attempts(Paths.attempts(t + 1)))
        judged = select(judged, config.select, counts, shares_of(environment), solved)
        remarks = notes(judged, config.select.keep, len(environment.tools()))
    write_jsonl(Paths.verified(t) / "verdicts.jsonl", (verdict for verdict, _ in judged))
    write_jsonl(Paths.verified(t) / "accepted.jsonl", accepted(judged))
    stage_summary = summary(t, [verdict for verdict, _ in judged], counts, meter, remarks)
    write_summary(with_generator(stage_summary, generations, params.generate))
    kept = sum(verdict.accepted for verdict, _ in judged)
    print("\n".join([f"{Paths.verified(t)}: {kept} of {len(lines)} candidates accepted{meter}", *remarks]))
    check_left(t, len(counts), kept)


def _counts(
    params: Params, t: int, environment: Environment, tasks: Sequence[Task], workers: Engine | None
) -> dict[str, PassCount]:
    """The episodes of policies/next at each of ``tasks``; empty if ``verify.pass_rate_samples`` is 0."""
    samples = params.verify.pass_rate_samples
    if not tasks or not samples:
        return {}
    limits = Limits.of(params.policy)
    with (
        playing(Paths.policy(t + 1), params.policy, params.train.temperature, workers) as policy,
        bar(len(tasks) * samples, f"pass rates {t}", "episodes") as progress,
    ):
        return pass_counts(policy, environment, tasks, limits, samples, params.seed, progress.update)
