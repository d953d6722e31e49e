"""Rollouts of Harbor: a trial's folder, with result.json and the agent's trajectory in ATIF. A job's folder holds trials."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coevolve.core.trajectories import StopReason
from coevolve.rollouts.atif import trajectory
from coevolve.rollouts.chats import UNTOLD, Unreadable
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, inner, json_object, number

# exceptions that the agent caused itself: the reward counts. All others end a trial without one.
STOPS = {
    "": StopReason.DONE,  # no exception
    "AgentTimeoutError": StopReason.TIMEOUT,
    "NonZeroAgentExitCodeError": StopReason.DONE,
    "ContextWindowExceededError": StopReason.MAX_TOKENS,
    "OutputTokenExceededError": StopReason.MAX_TOKENS,
    "AgentSafetyRefusalError": StopReason.REFUSED,
    "ContentPolicyViolationError": StopReason.REFUSED,
}
RESULT = "result.json"
REGRADED = "trials that grade an earlier one again, left out"
CHANGED = "trials of a task that changed since the first trial (another checksum), read as of another task"
UNRECORDED = "trials without a trajectory, of which only the reward counts"


def trials_of(file: Path) -> list[Path]:
    """The results of the trials that ``file`` is about: of the trial in whose folder an agent wrote it, or of a job.

    A file of other tools stands for itself.
    """
    if file.name == RESULT:
        return sorted(file.parent.glob(f"*/{RESULT}")) or [file]
    folders = [file.parents[1], *file.parents[3:4]] if file.parent.name == "agent" else []  # the second for a step
    return [folder / RESULT for folder in folders if (folder / RESULT).is_file()][:1] or [file]


def read(value: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    if "trial_name" not in value:
        raise Unreadable("the result of a job without trials")
    if inner(value, "config").get("source_trial"):
        options.remark(REGRADED)
        return
    steps, task = value.get("step_results"), _task(value, options)
    if not isinstance(steps, list):
        yield _rollout(value, place, options, "", {"task_id": task, "trajectory_id": str(value["trial_name"])})
        return
    for step in steps:
        name = step.get("step_name") if isinstance(step, dict) else None
        if not isinstance(name, str) or Path(name).name != name:
            raise Unreadable("step_results: expected the names of steps")
        known = {"task_id": f"{task}/{name}", "trajectory_id": f"{value['trial_name']}/{name}"}
        yield _rollout({**value, **step}, place, options, f"steps/{name}", known)


def _task(value: dict[str, Any], options: Options) -> str:
    """The task's name, with the checksum if the first trial of that name had another one."""
    name, checksum = str(value["task_name"]), str(value.get("task_checksum"))
    if options.first(f"task {name}"):
        options.first(f"first {name} {checksum}")
    if f"first {name} {checksum}" in options.seen:
        return name
    options.remark(CHANGED)
    return f"{name}@{checksum[:8]}"


def _rollout(value: dict[str, Any], place: Place, options: Options, folder: str, known: dict[str, Any]) -> RolloutRow:
    """The rollout of a trial, or of the step whose results ``value`` has and whose files are in ``folder``."""
    stop, failure = _end(value)
    score = None if failure else _score(value, options)
    if score is None:
        failure, score = failure or "no reward is recorded", 0.0
    known |= {"stop_reason": stop, "failure": failure}
    file = place.path.parent / folder / "agent" / "trajectory.json"
    if file.is_file():
        return trajectory(json_object(file), Place(place.where, file), options, score, known)
    options.remark(UNRECORDED)
    return RolloutRow(place.where, [], score, **known)


def _end(value: dict[str, Any]) -> tuple[StopReason, str]:
    """Why a trial ended, and the reason why it tells nothing about the agent, if any."""
    error = inner(value, "exception_info")
    kind = str(error.get("exception_type", ""))
    stop = StopReason.MAX_TOKENS if kind.endswith("LengthExceededError") else STOPS.get(kind)
    if stop is None:
        return StopReason.DONE, f"{kind}: {error.get('exception_message')}"[:100]
    return stop, "Harbor says that the reward is not valid" if value.get("reward_valid") is False else ""


def _score(value: dict[str, Any], options: Options) -> float | None:
    rewards = inner(inner(value, "verifier_result"), "rewards")
    if not rewards:
        return None
    if len(rewards) > 1 and options.reward not in rewards:
        raise Unreadable(f"{len(rewards)} rewards; name one with --reward ({', '.join(rewards)})")
    name = options.reward if options.reward in rewards else next(iter(rewards))
    return number(rewards[name], str(name))


HARBOR = RolloutFormat(
    "harbor",
    "Harbor (jobs and trials)",
    (RESULT,),
    f"no training step; {UNTOLD}",
    lambda row: {"task_name", "trial_name"} <= set(row) or {"n_total_trials", "stats"} <= set(row),
    read,
    others=("config.json", "lock.json", "artifacts/manifest.json", "verifier/*.json"),
)
