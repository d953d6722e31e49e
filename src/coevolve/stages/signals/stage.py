"""Stage `signals`: find the agent's weaknesses in the trajectories of iteration t and all earlier attempts.

Reads data/t/trajectories.parquet and data/t/attempts.jsonl.
Writes data/t/signals.jsonl, and data/next/attempts.jsonl with the attempts of iteration t added.
"""

from collections import Counter
from collections.abc import Sequence

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.learnability import learnability, recorded
from coevolve.core.paths import Paths
from coevolve.core.records import Attempt, Signal
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.stages.schema import Params
from coevolve.stages.signals.extract import KINDS, extract
from coevolve.stages.signals.rare import absence
from coevolve.stages.signals.table import open_table

LEARNABILITY = "learnability"


def main(params: Params, t: int) -> None:
    with open_table(Paths.trajectories(t), read_jsonl(Paths.attempts(t), Attempt)) as table:
        signals = extract(table, t, params.signals)
        write_jsonl(Paths.signals(t), signals)
        fired = Counter(signal.kind for signal in read_jsonl(Paths.signals(t), Signal))
        counts = {kind: fired[kind] for kind in KINDS if kind in params.signals.kinds}
        attempts = table.attempts()
        if params.trains:
            check_start(t, fired.total(), attempts)
        write_jsonl(Paths.attempts(t + 1), attempts)
        mean = learnability(recorded({}, attempts))
        why = absence(table, params.signals.rare_threshold)
        notes = [f"no pattern of tools is rare: {why}"] if counts.get("rare") == 0 else []
        write_summary(StageSummary("signals", t, {**counts, LEARNABILITY: mean}, columns=list(counts), notes=notes))
    print(f"{Paths.signals(t)}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))


def check_start(t: int, signals: int, attempts: Sequence[Attempt]) -> None:
    """Raise a CoevolveError if the first iteration has no success and no signal, so that the loop cannot continue."""
    tried = [attempt for attempt in attempts if attempt.size]  # in visits of size 0 the environment failed
    if t == 0 and not signals and tried and not any(attempt.successes for attempt in tried):
        raise CoevolveError(
            f"the agent solved none of {len({attempt.task_id for attempt in tried})} tasks and no signal fired, so more training "
            "cannot help: start from a more able model (base.model), teach it the tools first (raise warm.steps), choose "
            "easier tasks, or explore around unsolved tasks (add unsolved to signals.kinds)"
        )
