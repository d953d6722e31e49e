"""Rollouts of rLLM: an episode a file, of training (`train_step_N_epoch_E`) or of `rllm eval`.

Each step of a trajectory repeats the chat so far. If it does not, the step has a context of its own.
"""

from collections.abc import Iterator
from typing import Any

from coevolve.core.trajectories import StopReason
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, inner, objects, rollout, step_of

VALIDATION = "rollouts of evaluations within a training run, left out"
OTHERS = "trajectories of later agents in an episode (such as a judge), left out"
CONTEXTS = "rollouts whose steps have contexts of their own, read one after another"


def read(episode: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    if place.path.parent.name.startswith("val_step_"):
        options.remark(VALIDATION)
        return
    found = objects(episode, "trajectories")
    if not found:
        raise Unreadable("the episode holds no trajectory")
    agents = [one for one in found if one.get("name") == found[0].get("name")]
    for _ in range(len(found) - len(agents)):
        options.remark(OTHERS)
    name = episode.get("episode_id") or episode.get("id")
    for number, one in enumerate(agents):
        yield rollout(
            place.where if len(agents) == 1 else f"{place.where}.{number}",
            _chat(objects(one, "steps"), options),
            _score(episode, one, options),
            options.reward or "reward",
            {"task_id": _task(episode), "step": step_of(episode.get("training_step"))},
            failure=_failure(episode),
            trajectory_id=f"{name}.{number}" if len(agents) > 1 else name if isinstance(name, str) else None,
            stop_reason=_stop(episode.get("termination_reason")),
            agent=str(one.get("name") or "")[:100],
        )


def _chat(steps: list[dict[str, Any]], options: Options) -> list[Any]:
    """The chat of the last step, and the answers that it observed after it."""
    whole: list[Any] = []
    last: list[Any] = []
    answers: list[Any] = []
    for step in steps:
        said = step.get("chat_completions")
        if not isinstance(said, list):
            raise Unreadable("steps: expected a list of chats")
        if said[: len(last)] != last:
            options.remark(CONTEXTS)
            whole += [*last, *answers]
        last = said
        answers = [one for one in objects(step, "observation") if one.get("role") == "tool" and one not in said]
    return [*whole, *last, *answers]


def _score(episode: dict[str, Any], one: dict[str, Any], options: Options) -> Any:
    if options.reward is not None:
        return inner(episode, "metrics").get(options.reward)
    if one.get("reward") is not None:
        return one["reward"]
    correct = episode.get("is_correct")
    return float(correct) if isinstance(correct, bool) else None


def _task(episode: dict[str, Any]) -> Any:
    task = inner(episode, "task")
    return task.get("id") or task.get("task_id") or episode.get("task_hash")


def _failure(episode: dict[str, Any]) -> str:
    if episode.get("termination_reason") != "error":
        return ""
    return str(inner(inner(episode, "metadata"), "error").get("message") or "error")[:100]


def _stop(reason: Any) -> StopReason:
    text = str(reason)
    if text.endswith("_length_exceeded"):
        return StopReason.MAX_TOKENS
    stops = {"max_turns_exceeded": StopReason.MAX_TURNS, "timeout": StopReason.TIMEOUT}
    return stops.get(text, StopReason.DONE)


RLLM = RolloutFormat(
    "rllm",
    "rLLM",
    ("episode_*.json",),
    "no step outside training runs; the text of answers tells refused calls",
    lambda row: {"trajectories", "task"} <= set(row) and ("is_correct" in row or "termination_reason" in row),
    read,
    others=("batch_summary.json", "meta.json"),
)
