"""Trace a task to its origin, and a policy to its data, through the files of the pipeline."""

from collections import Counter
from collections.abc import Sequence
from os.path import commonpath
from pathlib import Path
from typing import Any

from rich.tree import Tree

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import file_hash, policy_hash
from coevolve.core.io import parse, read_json, read_jsonl, read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Exploration, Generation, Pair, Signal, Verdict
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.report.run_summary import SUMMARY, Summary, run_hash
from coevolve.stages.schema import load


def iterations() -> list[int]:
    """The iterations with data in this folder, in order."""
    found = [
        int(path.name)
        for path in Path("data").glob("*")
        if path.name.isdigit() and Paths.tasks(int(path.name)).exists()
    ]
    if not found:
        raise CoevolveError(
            "data: no datasets here; run `dvc repro`, or `dvc checkout` (`dvc pull` if it ran elsewhere)"
        )
    return sorted(found)


def of_task(task_id: str) -> Tree:
    """The trace of a task: task → verdict → exploration → signal → failed trajectories → training step → policy.

    With a task generator, it continues from the exploration: → generation → its prompt, the generator, and the varied task.
    """
    task, first = _find(task_id)
    top = Tree(f"task {task.task_id}, in datasets {first} to {iterations()[-1]}: {' / '.join(task.turns)[:160]}")
    top.add("reference: " + ", ".join(call.name for call in task.calls))
    origin = task.provenance
    if origin is None:
        top.add(f"a seed task of split {task.split!r}, not a synthesized task")
        return top
    t = origin.iteration
    verdicts = read_jsonl(Paths.verified(t) / "verdicts.jsonl", Verdict)
    verdict = next((one for one in verdicts if one.task_id == task.task_id), None)
    if verdict:
        passed = sum(gate.passed is True for gate in verdict.gates)
        rate = "unknown" if verdict.pass_rate is None else f"{verdict.pass_rate:.2f}"
        skipped = "".join(f", {gate.name} not checked" for gate in verdict.unchecked)
        policy = "" if _foreign() else f" of policies/{t + 1} then"
        top.add(f"verdict {verdict.candidate_id}: {passed} gates passed{skipped}; pass rate{policy}: {rate}")
    found = next(
        (one for one in read_jsonl(Paths.explorations(t), Exploration) if one.exploration_id == origin.exploration_id),
        None,
    )
    if found is None:
        top.add(f"exploration {origin.exploration_id} is not in {Paths.explorations(t)}")
        return top
    place = top.add(
        f"exploration {found.exploration_id} of iteration {t}, by {found.explorer}, prompt {origin.prompt_version}"
    )
    place.add("calls: " + ", ".join(call.name for call in found.calls))
    if found.reflection:
        place.add(f"reflection: {found.reflection.why}")
    signals = [one for one in read_jsonl(Paths.signals(t), Signal) if one.signal_id in origin.signal_ids]
    specs = read_jsonl(Paths.specs(t), Generation) if Paths.specs(t).exists() else []
    if author := next((one for one in specs if exploration_of(one) == found.exploration_id), None):
        _author(place, author, t)
    elif not signals:
        place.add("no signal: exploration was random")
    trajectories = read_trajectories(Paths.trajectories(t))
    foreign = _foreign()
    for signal in signals:
        _signal(place, signal, trajectories, foreign)
    return top


def _author(place: Tree, one: Generation, t: int) -> None:
    """Add a generation, with its prompt, its generator and the varied task."""
    below = place.add(f"generation {one.generation_id}, by generators/{t + 1}: {one.text}"[:300])
    below.add(f"prompt: {one.prompt}"[:300])
    below.add(f"a variation of task {one.seed}")


def _foreign() -> str:
    """Where the rollouts of another trainer are, whose ids are lines of these files; empty if the loop trains by itself."""
    params = load()
    if params.trains:
        return ""
    rollouts = params.train.rollouts
    files = [rollouts] if isinstance(rollouts, str) else rollouts
    return f"in {commonpath([Path(file).resolve().parent for file in files])}"


def _signal(place: Tree, signal: Signal, trajectories: Sequence[Trajectory], origin: str) -> None:
    about = f"task {signal.task_id}" if signal.task_id else f"pattern {' > '.join(signal.pattern or [])}"
    numbers = ", ".join(f"{key} {value}" for key, value in signal.evidence.items())
    below = place.add(f"signal {signal.signal_id}, {signal.kind}, {about} ({numbers})"[:200])
    names = set(signal.trajectory_ids)
    shown = [one for one in trajectories if one.trajectory_id in names]
    for one in sorted(shown, key=lambda one: (is_success(one.score), one.step, one.group, one.sample))[:5]:
        state = "solved" if is_success(one.score) else "failed"
        policy = f"of iteration {one.iteration}, from policies/{one.iteration}"
        below.add(
            f"trajectory {one.trajectory_id}, {state}, score {one.score:g}, at training step {one.step} {origin or policy}"
        )


def _find(task_id: str) -> tuple[Task, int]:
    """The task whose id begins with ``task_id``, and the first dataset that holds it."""
    matches: dict[str, tuple[Task, int]] = {}
    for t in iterations():
        for task in read_tasks(Paths.tasks(t)):
            if task.task_id.startswith(task_id):
                matches.setdefault(task.task_id, (task, t))
    if task_id in matches:
        return matches[task_id]
    if len(matches) > 1:
        raise CoevolveError(f"{task_id}: {len(matches)} tasks begin with this; give more of the id")
    if matches:
        return next(iter(matches.values()))
    raise CoevolveError(
        f"{task_id}: no such task in data/*/tasks.jsonl; `coevolve lineage` lists ids, and so does `coevolve compare`"
    )


def mixed() -> str | None:
    """A line that says so if the files here belong to several runs; None if they do not, or if no run has ended."""
    if not SUMMARY.exists():
        return None
    summary = parse(Summary, read_json(SUMMARY), str(SUMMARY))
    files = [Paths.tasks(t) for t in range(summary.last + 1)]
    if all(file.exists() for file in files) and run_hash(summary.last) == summary.run:
        return None
    return f"{SUMMARY} is of run {summary.run}, but data and policies here are not: run `dvc repro` to its end"


def of_policy(t: int) -> Tree:
    """The trace of policies/t: its parents, and the synthesized tasks of each dataset with their signals."""
    if not Paths.policy(t).is_dir():
        raise CoevolveError(f"{Paths.policy(t)}: no such policy here; run `dvc repro`, or `dvc checkout`")
    top = Tree(f"policies/{t}, hash {policy_hash(Paths.policy(t))}")
    place = top
    for step in range(t - 1, -1, -1):
        tasks = read_tasks(Paths.tasks(step))
        below = place.add(
            f"trained in iteration {step} on data/{step}/tasks.jsonl, md5 {file_hash(Paths.tasks(step))}: {len(tasks)} tasks"
        )
        below.add(f"{sum(task.provenance is None for task in tasks)} seed tasks")
        _preferred(below, step)
        origins = Counter(task.provenance.iteration for task in tasks if task.provenance)
        for origin, count in sorted(origins.items()):
            below.add(f"{count} synthesized in iteration {origin}, {_kinds(tasks, origin)}")
        place = place.add(f"from policies/{step}, hash {policy_hash(Paths.policy(step))}")
    return top


def _preferred(place: Tree, t: int) -> None:
    """Add the pairs of training, by kind, and the pairs of the failure agent, if there are any."""
    file = Paths.pairs(t) / "pairs.jsonl"
    if found := read_jsonl(file, Pair) if file.exists() else []:
        kinds = Counter(one.kind for one in found)
        below = place.add(
            f"{len(found)} pairs: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        )
        if (Paths.pairs(t) / "failure").is_dir():
            among = read_jsonl(Paths.pairs(t) / "failure/pairs.jsonl", Pair)
            below.add(f"hard negatives from failures/{t + 1}, which learned from {len(among)} pairs of failures")


def _kinds(tasks: list[Task], iteration: int) -> str:
    """The kinds of signals behind the tasks of an iteration, with counts."""
    kinds: dict[str, Any] = {one.signal_id: one.kind for one in read_jsonl(Paths.signals(iteration), Signal)}
    ours = [task.provenance for task in tasks if task.provenance and task.provenance.iteration == iteration]
    found = Counter(
        str(kinds.get(origin.signal_ids[0], "unknown")) if origin.signal_ids else "no signal" for origin in ours
    )
    return "around " + ", ".join(f"{kind} ({count})" for kind, count in found.most_common())
