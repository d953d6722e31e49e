"""Stage `synthesize`: chains that the environment accepted become candidate tasks.

Reads data/t/explorations.jsonl; writes data/t/candidates.jsonl.
"""

from coevolve.environments import make
from coevolve.files import Paths, read_jsonl, read_tasks, write_jsonl
from coevolve.params import Params
from coevolve.progress import bar
from coevolve.records import Exploration
from coevolve.stage import run_iteration
from coevolve.synthesize import synthesize


def main(params: Params, t: int) -> None:
    environment = make(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment)
    explorations = read_jsonl(Paths.explorations(t), Exploration)
    count = params.synthesize.count
    with bar(count, f"synthesize {t}", "candidates") as progress:
        candidates = synthesize(environment, tasks, explorations, count, params.seed, progress.update)
    write_jsonl(Paths.candidates(t), candidates)
    print(f"{Paths.candidates(t)}: {len(candidates)} candidates of {len(explorations)} explorations")


if __name__ == "__main__":
    run_iteration(main, __doc__)
