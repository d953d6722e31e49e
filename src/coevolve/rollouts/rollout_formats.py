"""The formats of rollouts. A format is a module with a reader, and a line here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from glob import glob
from os.path import commonpath
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.untrusted import decode, writable
from coevolve.rollouts.atif import ATIF
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.harbor_trials import HARBOR, trials_of
from coevolve.rollouts.nemo_gym_rows import NEMO_GYM
from coevolve.rollouts.own_episodes import COEVOLVE, EPISODES
from coevolve.rollouts.rllm_episodes import RLLM
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, Rows, SkippedRow, json_texts
from coevolve.rollouts.text_dumps import SKYRL, VERL
from coevolve.rollouts.trl_completions import TRL
from coevolve.rollouts.verifiers_traces import VERIFIERS

TABLE = (
    VERIFIERS,
    TRL,
    VERL,
    ATIF,
    HARBOR,
    RLLM,
    SKYRL,
    NEMO_GYM,
    COEVOLVE,
    EPISODES,
)  # the first that claims a row has it
FORMATS: dict[str, RolloutFormat] = {rows.name: rows for rows in TABLE}
AUTO = "auto"
ENDS = (".jsonl", ".json", ".parquet", ".jsonl.zst", ".jsonl.gz")
Source = str | Path | Sequence[str | Path]


def rollout_files(source: Source, name: str = AUTO, left_out: Callable[[str, str], object] | None = None) -> list[Path]:
    """The files of ``source`` (files, folders and globs), in order and each once.

    A folder gives the files that match the format ``name``. `auto` gives all that may hold rollouts. A file that is named
    in several spellings, or through links, keeps the first. Files of Harbor's agents and jobs give their trials.
    ``left_out`` hears of a folder without such files, which else is an error.
    """
    if name not in (AUTO, *FORMATS):
        raise CoevolveError(f"--format {name}: expected one of: {', '.join((AUTO, *FORMATS))}")
    asked = [source] if isinstance(source, str | Path) else source
    found: dict[Path, Path] = {}
    for match in (match for entry in asked for match in _matches(str(entry))):
        files = _inside(match, name) if match.is_dir() else [match]
        if not files:
            _complain(match, left_out)
        for rollouts in (trial for file in files for trial in trials_of(file)):
            found.setdefault(rollouts.resolve(), rollouts)
    if not asked:
        raise CoevolveError("no rollouts are named; name a file, a folder or a glob")
    return list(found.values())


def _complain(folder: Path, left_out: Callable[[str, str], object] | None) -> None:
    """Say that ``folder`` holds no rollouts."""
    known = ", ".join(f"{rows.patterns[0]} ({rows.writer})" for rows in FORMATS.values())
    if left_out is None:
        raise CoevolveError(f"{folder}: holds no rollouts; expected files such as {known}")
    left_out(str(folder), "a folder without rollouts")


def _matches(entry: str) -> list[Path]:
    matches = [Path(entry)] if Path(entry).exists() else sorted(map(Path, glob(entry, recursive=True)))
    if not matches:
        store = "copy it from its store first" if "://" in entry else "name the rollouts that your trainer wrote"
        raise CoevolveError(f"{entry}: no such file; {store}")
    return matches


def _inside(folder: Path, name: str) -> list[Path]:
    """The files in ``folder`` that may hold rollouts, with no hidden ones."""
    patterns = [f"*{end}" for end in ENDS] if name == AUTO else FORMATS[name].patterns
    others = [f"*/{pattern}" for rows in FORMATS.values() for pattern in rows.others]
    files = sorted({file for pattern in patterns for file in folder.rglob(pattern)})
    seen = [(file, f"/{file.relative_to(folder).as_posix()}") for file in files if file.is_file()]
    return [file for file, path in seen if "/." not in path and not any(fnmatch(path, other) for other in others)]


def claimed(row: Mapping[str, Any], table: bool = False) -> RolloutFormat | None:
    """The format of a JSON object, or of a ``table`` with such columns; None if no format claims it."""
    return next(
        (rows for rows in FORMATS.values() if (rows.table if table else rows.read) and rows.claims(row)),
        None,
    )


def columns(file: Path) -> Mapping[str, Any]:
    """The names of the columns of a Parquet file. Another file is Unreadable."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return dict.fromkeys(pq.read_schema(file).names)
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"not a Parquet file ({first_line(error)})") from None


def read_rollouts(files: Sequence[Path], options: Options, name: str = AUTO) -> Rows:
    """The rollouts of all ``files``, each of the format ``name`` or of the one that claims its first row.

    Their addresses are relative to the folder that the files share.
    """
    whole_files = {file.resolve(): file for file in files}
    folder = commonpath([whole.parent for whole in whole_files])
    for whole, file in whole_files.items():
        if whole.parent.name == "effective" and whole.parents[1] / "all" / file.name in whole_files:
            options.remark("files of prime-rl whose rollouts are in `all` too, left out")
            continue
        where = writable(str(whole).removeprefix(folder).lstrip("/"))
        yield from (_table if file.suffix == ".parquet" else _objects)(file, where, options, FORMATS.get(name))


def _table(path: Path, name: str, options: Options, rows: RolloutFormat | None) -> Rows:
    """The rollouts of a Parquet file."""
    try:
        held = columns(path)
    except Unreadable as error:
        yield SkippedRow(name, str(error))
        return
    rows = rows or claimed(held, table=True)
    if rows is None or rows.table is None:
        yield _unknown(name, held)
        return
    options.formats[rows.name] = rows
    yield from rows.table(path, name, options)


def _objects(path: Path, name: str, options: Options, rows: RolloutFormat | None) -> Rows:
    """The rollouts of a file with JSON objects or lists of them. An unreadable one becomes a SkippedRow.

    ``rows`` is the format of all, or None: then an object that no format claims is of the format before it, and a file
    whose first object no format claims is not read on.
    """
    where, forced = f"{name}:1", rows
    try:
        for where, text in json_texts(path, name, options.progress):
            if text is None:
                yield SkippedRow(where, "longer than 64 MB")
                continue
            if not text.strip():
                continue
            try:
                value = decode(text.decode("utf-8-sig"))
            except ValueError as error:  # invalid UTF-8 is one, too
                yield SkippedRow(where, f"not JSON ({str(error)[:100]})")
                continue
            for at, inner in _inner(value, where):
                rows = forced or (claimed(inner) if isinstance(inner, dict) else None) or rows
                if rows is None or rows.read is None:
                    yield _unknown(at, inner)
                    return
                options.formats[rows.name] = rows
                try:
                    if not isinstance(inner, dict):
                        raise Unreadable(f"expected a JSON object, found {type(inner).__name__}")
                    if rows.parse is not decode and inner is value:
                        inner = rows.parse(text.decode("utf-8-sig"))
                    yield from rows.read(inner, Place(at, path), options)
                except ValueError as error:
                    yield SkippedRow(at, f"not JSON ({str(error)[:100]})")
                except Unreadable as error:
                    yield SkippedRow(at, str(error))
    except OSError as error:
        yield SkippedRow(where, f"the file cannot be read from here on ({first_line(error)})")


def _inner(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """``value``, or the members of a list, with their addresses."""
    if isinstance(value, list):
        yield from ((f"{where}[{row}]", inner) for row, inner in enumerate(value))
    else:
        yield where, value


def _unknown(where: str, row: Any) -> SkippedRow:
    keys = ", ".join(list(row)[:12]) if isinstance(row, Mapping) else type(row).__name__
    return SkippedRow(where, f"a file of no known format (it holds {keys or 'nothing'})")


def lacking(options: Options) -> list[str]:
    """A line for each format that was read: its writer and the values that it lacks."""
    return [f"{rows.writer}: {rows.lacks}" for rows in options.formats.values()]


def listed() -> str:
    """A line for each format: its writer and the values that it lacks."""
    return "\n".join(f"  {rows.name:11}{rows.writer}: {rows.lacks}" for rows in FORMATS.values())
