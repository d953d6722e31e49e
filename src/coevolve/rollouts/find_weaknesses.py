"""Signals in the rollouts of any trainer: `coevolve signals`, and `coevolve.signals` in Python."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coevolve.core.io import parse, read_jsonl
from coevolve.core.records import Attempt, Signal
from coevolve.core.section import validated
from coevolve.core.trajectories import Trajectory, stream_trajectories
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.foreign_trajectories import RolloutAccount, named_or_opening, trajectories
from coevolve.rollouts.own_episodes import recorded
from coevolve.rollouts.rollout_formats import Source, columns, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options, Rows
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.table import REQUIRED, RecordedEpisode, Table, open_table

DEFAULTS = Signals()
Record = Mapping[str, Any] | Trajectory | Attempt


def signals(
    trajectories: Source | Iterable[Record],
    *,
    history: str | Path | Iterable[Record] | None = None,
    window: int = DEFAULTS.window,
    rare_threshold: float = DEFAULTS.rare_threshold,
    kinds: Sequence[str] = tuple(DEFAULTS.kinds),
) -> list[Signal]:
    """The weaknesses that rollouts of any trainer show, each with its evidence.

    ``trajectories`` are files of any format that `coevolve signals` reads (paths, folders, globs), or records in memory:
    one per episode, with ``task_id``, ``step`` and ``score``. docs/python.md lists all keys. ``history`` holds earlier
    attempts, as a JSONL file or as records. The other arguments are the section `signals` of the parameters.
    """
    values = {"window": window, "rare_threshold": rare_threshold, "kinds": list(kinds)}
    config = validated(Signals, values, "")
    if isinstance(history, str | Path):
        attempts = read_jsonl(Path(history), Attempt)
    else:
        attempts = [parse(Attempt, value, f"history[{row}]") for row, value in _values(history or ())]
    given: Any = trajectories if isinstance(trajectories, str | Path) else list(trajectories)
    if given == []:
        return []
    rows: Rows | None = None
    if isinstance(given, list) and not all(isinstance(one, str | Path) for one in given):
        addressed = ((f"trajectories[{row}]", value) for row, value in _values(given))
        rows = (recorded(parse(RecordedEpisode, value, where), where) for where, value in addressed)
    with evidence(given, attempts, rows=rows) as found:
        return list(extract(found.table, found.table.last_iteration(), config))


def _values(records: Iterable[Record]) -> Iterator[tuple[int, Any]]:
    """The records as JSON objects, with their positions."""
    for row, record in enumerate(records):
        yield row, asdict(record) if isinstance(record, Trajectory | Attempt) else record


@dataclass(frozen=True)
class Evidence:
    """The ``table`` of all rollouts, the account of those that were read row by row, and the Parquet ``files`` behind it."""

    table: Table
    account: RolloutAccount
    options: Options
    files: list[Path]


@contextmanager
def evidence(
    source: Source,
    history: Sequence[Attempt] = (),
    options: Options | None = None,
    threshold: float | None = None,
    rows: Rows | None = None,
) -> Iterator[Evidence]:
    """Read ``source``: DuckDB reads Parquet files of our columns, and the readers of formats all others, into such a file.

    ``options`` and ``threshold`` are those of ``read_rollouts`` and ``open_table``. ``rows`` replace the files. A source
    without a rollout is a CoevolveError.
    """
    account, options = RolloutAccount(), options or Options()
    files = rollout_files(source, left_out=account.leave_out) if rows is None else []
    tables = [file for file in files if options.reward is None and _of_episodes(file)]
    of_episodes = set(tables)
    others = [file for file in files if file not in of_episodes]
    if rows is None:
        rows = read_rollouts(others, options) if others else iter(())
    left_out = account.leave_out if len(files) > 1 else None  # the other files go on
    with tempfile.TemporaryDirectory(prefix="coevolve-rollouts-") as folder:
        found = trajectories(rows, named_or_opening, account, score=options.score, unscored=True)
        if stream_trajectories(Path(folder) / "rollouts.parquet", map(_short, found)):
            tables.append(Path(folder) / "rollouts.parquet")
        with open_table(tables, history, "1GB", threshold, left_out) as table:
            if not table.summary()["rollouts"]:
                named = [source] if isinstance(source, str | Path) else source
                list(account.some(iter(()), ", ".join(map(str, named[:3])), options.remarks))
            yield Evidence(table, account, options, tables)


def _of_episodes(file: Path) -> bool:
    """Whether a file is Parquet with the columns of episodes, and not TRL's."""
    held: set[str] = set()
    if file.suffix == ".parquet":
        with suppress(Unreadable):
            held = set(columns(file))
    return set(REQUIRED) <= held and "completion" not in held


def _short(trajectory: Trajectory) -> Trajectory:
    """``trajectory`` with the first request only: signals need no other words."""
    asked = next((message for message in trajectory.messages if message["role"] == "user"), None)
    return replace(trajectory, messages=[asked] if asked else [])
