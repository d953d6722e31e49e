"""Tell where a run is: the iteration, the number of the stage, and the time that is left if it is known."""

from collections.abc import Mapping, Sequence

from coevolve.core.pipeline import PIPELINE, Loop, PipelineStep, steps
from coevolve.core.stage_seconds import seconds


def position(params: Loop, stage: str, t: int | None = None) -> str:
    """For example `stage 14 of 37: verify, iteration 1 of 3, about 9 min left`."""
    if not PIPELINE.exists():
        return stage
    order = ordered(list(steps(params.iterations)))
    keys = [(step.stage, step.t) for step in order]
    if (stage, t) not in keys:
        return stage
    number = keys.index((stage, t))
    parts = [f"stage {number + 1} of {len(keys)}: {stage}"]
    if t is not None:
        trained = t - 1 if stage == "evaluate" and t > 0 else t  # evaluation follows the iteration that made its policy
        parts.append(f"iteration {trained + 1} of {len(params.iterations)}")
    if (left := time_left(keys[number:], seconds())) is not None:
        parts.append(f"about {left / 60:.0f} min left" if left >= 60 else "about a minute left")
    return ", ".join(parts)


def ordered(unrolled: Sequence[PipelineStep]) -> list[PipelineStep]:
    """The steps as `dvc repro` runs them: first the start of the loop, then each iteration, then evaluations and the report.

    DVC evaluates trained policies last, because only the report reads the results.
    """

    def key(indexed: tuple[int, PipelineStep]) -> tuple[int, int, int]:
        index, step = indexed
        if step.stage == "evaluate":
            return (2 if step.t else 0), step.t or 0, index
        return (3 if step.stage == "report" else 0 if step.t is None else 1), step.t or 0, index

    waiting = [step for _, step in sorted(enumerate(unrolled), key=key)]
    unwritten = {out for step in waiting for out in step.outs}
    order: list[PipelineStep] = []
    while waiting:
        ready = next((step for step in waiting if not unwritten & set(step.deps)), waiting[0])
        waiting.remove(ready)
        unwritten -= set(ready.outs)
        order.append(ready)
    return order


def time_left(keys: Sequence[tuple[str, int | None]], known: Mapping[str, float]) -> float | None:
    """Seconds that the steps ``keys`` will take: for each the last time of the step, or of its stage in another iteration.

    None if a stage never ran on this machine.
    """
    by_stage = {name.partition("/")[0]: took for name, took in known.items()}
    expected = [known.get(f"{stage}/{t}" if t is not None else stage, by_stage.get(stage)) for stage, t in keys]
    return None if None in expected else sum(took for took in expected if took is not None)
