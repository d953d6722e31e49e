"""Rollouts of TRL: the Parquet files completions/completions_STEP.parquet that `log_completions=True` writes.

A file holds the last batch of generations before a log. Columns: step, prompt, completion, one per reward function, one
per name of ``log_extra``, advantage.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.rollouts.chats import UNTOLD, Unreadable
from coevolve.rollouts.flat_text import messages_of
from coevolve.rollouts.rollout_row import Options, RolloutFormat, RolloutRow, Rows, batches, parquet_rows, rollout

NEEDED = ("step", "prompt", "completion")
REPEATED = "rollouts that repeat the file before them, left out (one generation, several updates)"
NO_REWARDS = (*NEEDED, "advantage", "task_id")  # columns that may hold numbers


def read(path: Path, name: str, options: Options) -> Rows:
    rows = parquet_rows(path, name, options, NEEDED, lambda row, where: _rollout(row, where, path, options))
    before, options.last[TRL.name] = options.last.get(TRL.name, ""), _same_rows(path)
    if not before or before != options.last[TRL.name]:
        yield from rows
        return
    for _ in rows:
        options.remark(REPEATED)


def _same_rows(path: Path) -> str:
    """A hash of all columns but the step, which is equal for files of one generation that TRL logs after each of its updates."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    digest = hashlib.sha256()
    with suppress(pa.ArrowException, OSError), pq.ParquetFile(path) as file:  # `read` says what is wrong with the file
        for batch in batches(file, [name for name in file.schema_arrow.names if name != "step"]):
            digest.update(batch.serialize())
        return digest.hexdigest()
    return ""


def _rollout(row: dict[str, Any], where: str, path: Path, options: Options) -> RolloutRow:
    prompt, completion = row["prompt"], row["completion"]
    text, before = None, 0
    if isinstance(prompt, str) or isinstance(completion, str):
        messages, text = messages_of(str(prompt), str(completion)), str(prompt)
    elif not isinstance(prompt, list | None) or not isinstance(completion, list | None):
        raise Unreadable("prompt and completion: expected texts or lists of messages")
    else:
        messages, before = _given([*(prompt or []), *(completion or [])]), len(prompt or [])
    name = _reward(row, path, options)
    return rollout(where, messages, row.get(name), name, row, prompt=text, prompt_messages=before)


def _given(value: Any) -> Any:
    """``value`` without what Parquet added: a struct has every key of the file, and null where a call had none."""
    if isinstance(value, dict):
        return {key: _given(inner) for key, inner in value.items() if inner is not None}
    if not isinstance(value, list | str | int | float | None):  # a table may hold bytes, dates and more
        raise Unreadable(f"a message holds a {type(value).__name__}, which is no JSON")
    return [_given(inner) for inner in value] if isinstance(value, list) else value


def _reward(row: dict[str, Any], path: Path, options: Options) -> str:
    """The column of the one reward of all rows, empty for a row that no function scored.

    Several are an error that names them, as the file does not hold their weights.
    """
    if options.reward is None:
        others = {name: value for name, value in row.items() if name not in NO_REWARDS}
        numbers = {name: value for name, value in others.items() if isinstance(value, int | float)}
        columns = [name for name, value in numbers.items() if value == value]  # no NaN
        if not numbers and (lists := [name for name, value in others.items() if isinstance(value, list)]):
            if (count := len(others[lists[0]])) != 1:
                raise Unreadable(f"no reward function scored it as a number; {lists[0]} is a list of {count}")
            columns = lists
        options.columns.update(columns)
        if len(options.columns) > 1:
            raise CoevolveError(
                f"{path}: {len(options.columns)} columns may be the score: {', '.join(sorted(options.columns))}; "
                "name one with --reward"
            )
        if not columns:
            return ""
    name = options.reward or columns[0]
    if name not in row:
        raise CoevolveError(f"{path}: no column {name!r}; expected a reward among {', '.join(row)}")
    return name


TRL = RolloutFormat(
    "trl",
    "TRL",
    ("completions_*.parquet",),
    f"no task id without a column task_id (`log_extra`); null arguments are dropped; {UNTOLD}",
    lambda row: {"step", "prompt", "completion", "advantage"} <= set(row),
    table=read,
)
