"""From a rehearsal to pairs: failures ranked beside references, the failure agent's among them, and what comes of it written."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl, write_text
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.trajectories import Trajectory, write_trajectories
from coevolve.policies import adapted
from coevolve.stages.pairs.check import Checked, check, report
from coevolve.stages.pairs.choose import choose
from coevolve.stages.pairs.closeness import Failure, failures, ranked
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.pairs.failure_agent import Evolved, PairsContext, Rival, evolve
from coevolve.stages.pairs.pairs_summary import summary
from coevolve.stages.pairs.rehearse import rehearse
from coevolve.stages.train.config import Train
from coevolve.stages.train.reference_tokens import replayed


@dataclass(frozen=True, slots=True)
class Made:
    """Pairs as they were ``checked``, and the episodes that they are of. ``failures`` are those of the rehearsals, by id; ``hard``
    are hard negatives of the failure agent, which has ``evolved``, if there is one.
    """

    checked: Checked = field(default_factory=lambda: Checked([], [], []))
    rehearsals: Sequence[Trajectory] = ()
    references: Sequence[Trajectory] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict)
    hard: Sequence[Trajectory] = ()
    evolved: Evolved | None = None


def make(policy: Path, ground: PairsContext, config: Train, own: Pairs, rival: Rival | None = None) -> Made:
    """Play, rank and pair: the model directory ``policy`` and, where there is one, its ``rival``.

    An environment in which no reference succeeds is a CoevolveError: failures have nothing to be held against.
    """
    environment, plan = ground.environment, ground.plan
    references = replayed(environment, plan.tasks, ground.limits)
    if not references:
        raise CoevolveError(
            f"train.learner: {config.learner} needs references that solve their tasks when they are replayed, and of the "
            f"{len(plan.tasks)} tasks of iteration {plan.iteration} of {environment.name} none has one; set train.learner: grpo"
        )
    count = config.steps * config.tasks_per_step * config.group_size
    with ground.open(policy) as player, bar(count, f"pairs {plan.iteration}", "episodes") as progress:
        played = rehearse(player, environment, plan, config, ground.limits, progress.update)
    judge = partial(failures, environment, plan.tasks, references)
    failed = judge(played)
    ranks, hard, evolved = ranked(failed, own.rank), [], None
    if rival:
        evolved = evolve(rival, ground, played, failed, judge, own)
        ranks |= ranked(evolved.failures, own.rank)
        hard = [one for one in evolved.after if ranks.get(one.trajectory_id, -1.0) >= rival.config.closeness]
    pairs = choose(played, references, ranks, own, plan, hard)
    episodes = {one.trajectory_id: one for one in (*played, *references.values(), *hard)}
    return Made(check(pairs, episodes, own.margin), played, list(references.values()), failed, hard, evolved)


def write(t: int, made: Made | None = None, arithmetic: str = "") -> StageSummary:
    """The folder of iteration ``t``, the failure agent after it, and the stage's summary, which is returned: where the learner
    needs no pairs, none, as it was, and of nothing.
    """
    found = made or Made()
    folder, rival = Paths.pairs(t), found.evolved
    shutil.rmtree(folder, ignore_errors=True)
    episodes = {"rehearsals": found.rehearsals, "references": found.references, "hard": found.hard}
    _write(folder, found.checked, f"Pairs of iteration {t}", episodes)
    if rival:
        episodes = {"before": rival.before, "after": rival.after}
        _write(folder / "failure", rival.checked, f"Pairs of failures of iteration {t}", episodes)
        write_jsonl(folder / "failure/metrics.jsonl", rival.figures)
    adapted.write(Paths.failure(t + 1), rival.folder if rival else Paths.failure(t))
    said = summary(t, made, arithmetic)
    write_summary(said)
    return said


def _write(folder: Path, checked: Checked, title: str, episodes: Mapping[str, Sequence[Trajectory]]) -> None:
    write_jsonl(folder / "pairs.jsonl", checked.pairs)
    write_jsonl(folder / "quarantine.jsonl", checked.quarantine)
    write_text(folder / "report.md", report(checked, title))
    for name, some in episodes.items():
        write_trajectories(folder / f"{name}.parquet", some)
