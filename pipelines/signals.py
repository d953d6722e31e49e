"""Stage signals: where the agent is weak, from the trajectories of iteration t and all attempts before.

Reads data/t/trajectories.parquet and data/t/attempts.jsonl; writes data/t/signals.jsonl, and data/next/attempts.jsonl
with the attempts of iteration t added.
"""

from coevolve.files import Paths, write_jsonl
from coevolve.params import Params
from coevolve.signals import extract
from coevolve.signals.table import open_table
from coevolve.stage import run_iteration


def main(params: Params, t: int) -> None:
    knobs = params.signals
    with open_table(Paths.trajectories(t), Paths.attempts(t)) as table:
        signals = extract(table, t, knobs.window, knobs.rare_threshold, knobs.kinds)
        write_jsonl(Paths.signals(t), signals)
        write_jsonl(Paths.attempts(t + 1), (visit.attempt for visit in table.visits()))


if __name__ == "__main__":
    run_iteration(main, __doc__)
