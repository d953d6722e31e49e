"""The formats of rollouts. A format is a module with a reader, and a line here."""

from collections.abc import Mapping, Sequence
from glob import glob
from os.path import commonpath
from pathlib import Path
from typing import Any

from coevolve.core.calls import writable
from coevolve.core.errors import CoevolveError, first_line
from coevolve.rollouts.own_episodes import COEVOLVE
from coevolve.rollouts.rollout_row import Options, RolloutFormat, Rows, first_object
from coevolve.rollouts.trl_completions import TRL, same_rows
from coevolve.rollouts.verifiers_traces import VERIFIERS
from coevolve.rollouts.verl_dump import VERL

FORMATS: dict[str, RolloutFormat] = {rows.name: rows for rows in (VERIFIERS, TRL, VERL, COEVOLVE)}
AUTO = "auto"
Source = str | Path | Sequence[str | Path]


def rollout_files(source: Source, name: str = AUTO) -> tuple[RolloutFormat, list[Path]]:
    """The format of ``source`` (files, folders and globs) and its files, in order and each once.

    ``name`` is a format's, or `auto`: then the first row decides. A file that is named in several spellings, or through
    links, keeps the first.
    """
    if name not in (AUTO, *FORMATS):
        raise CoevolveError(f"--format {name}: expected one of: {', '.join((AUTO, *FORMATS))}")
    asked = [source] if isinstance(source, str | Path) else source
    found: dict[Path, Path] = {}
    for file in (file for entry in asked for file in _files(str(entry), name)):
        found.setdefault(file.resolve(), file)
    files = list(found.values())
    if not files:
        raise CoevolveError("no rollouts are named; name a file, a folder or a glob")
    if name != AUTO:
        return FORMATS[name], files
    # the first files may be empty
    rows_of_files = ((file, _columns(file) if file.suffix == ".parquet" else first_object(file)) for file in files)
    file, row = next(((file, row) for file, row in rows_of_files if row), (files[0], {}))
    for rows in FORMATS.values():
        if rows.claims(row):
            return rows, files
    keys = ", ".join(list(row)[:12]) or "no JSON object"
    raise CoevolveError(f"{file}: its first row is of no known format (it holds {keys}); name one with --format")


def _files(entry: str, name: str) -> list[Path]:
    matches = [Path(entry)] if Path(entry).exists() else sorted(map(Path, glob(entry, recursive=True)))
    if not matches:
        raise CoevolveError(f"{entry}: no such file; name the rollouts that your trainer wrote")
    files = (file for match in matches for file in (_inside(match, name) if match.is_dir() else [match]))
    return [file for file in files if file.is_file()]


def _inside(folder: Path, name: str) -> list[Path]:
    """The rollouts in ``folder``: the files of the first format that has any."""
    for rows in FORMATS.values() if name == AUTO else [FORMATS[name]]:
        if found := sorted({file for end in rows.patterns for file in folder.rglob(end) if file.is_file()}):
            return found
    known = ", ".join(f"{rows.patterns[0]} ({rows.writer})" for rows in FORMATS.values())
    raise CoevolveError(f"{folder}: holds no rollouts; expected one of: {known}; or name the files themselves")


def _columns(file: Path) -> Mapping[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return dict.fromkeys(pq.read_schema(file).names)
    except (pa.ArrowException, OSError) as error:
        raise CoevolveError(
            f"{file}: not a Parquet file ({first_line(error)}); correct it, or name another one"
        ) from None


def read_rollouts(rows: RolloutFormat, files: Sequence[Path], options: Options) -> Rows:
    """The rollouts of all ``files``. Their addresses are relative to the folder that the files share."""
    folder = Path(commonpath([file.resolve().parent for file in files]))
    before, whole_files = "", {file.resolve() for file in files}
    for file in files:
        parent = file.resolve().parent
        if parent.name == "effective" and parent.parent / "all" / file.name in whole_files:
            options.remark("files of prime-rl whose rollouts are in `all` too, left out")
            continue
        found: Rows = rows.read(file, writable(file.resolve().relative_to(folder).as_posix()), options)
        if rows is TRL:  # a batch of several updates is logged after each of them
            after = same_rows(file)
            if after and after == before:
                for _ in found:
                    options.remark(
                        "rollouts that repeat the file before them, left out (one generation, several updates)"
                    )
                continue
            before = after
        yield from found


def listed() -> str:
    """A line for each format: its writer and the values that it lacks."""
    return "\n".join(f"  {rows.name:11}{rows.writer}: {rows.lacks}" for rows in FORMATS.values())
