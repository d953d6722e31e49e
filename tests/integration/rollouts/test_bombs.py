"""A small file that unpacks to gigabytes costs no more memory than its rows, and its good rows are read."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.rollouts.test_rollout_formats import LINES

GIGABYTES = 2  # of address space
READ = f"""
import resource, sys
from pathlib import Path
import pyarrow.dataset
from coevolve.rollouts.rollout_formats import read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options, RolloutRow
resource.setrlimit(resource.RLIMIT_AS, ({int(GIGABYTES * 2**30)}, {int(GIGABYTES * 2**30)}))
found = list(map(type, read_rollouts(rollout_files(*sys.argv[1:]), Options(), sys.argv[2])))
print(sum(kind is RolloutRow for kind in found), len(found))
"""


def count(file: Path, name: str) -> list[int]:
    """The numbers of readable rows and of all rows."""
    done = subprocess.run([sys.executable, "-c", READ, str(file), name], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_of_gigabytes_is_left_out(tmp_path: Path, ended: bool) -> None:
    good = json.dumps(LINES["verl"]).encode() + b"\n"
    file = tmp_path / "1.jsonl.zst"
    with pa.CompressedOutputStream(str(file), "zstd") as packed:
        packed.write(good)
        packed.write(b'{"input": "')
        for _ in range(36):
            packed.write(b"x" * (1 << 26))
        packed.write(b"\n" + good if ended else b"")
    assert count(file, "verl") == ([2, 3] if ended else [1, 2])


@pytest.mark.parametrize(
    ("size", "rows", "dictionary"), [(20 << 20, 110, True), (2 << 20, 1100, True), (20 << 20, 110, False)]
)
def test_texts_that_are_stored_once_are_not_all_unpacked_at_once(
    tmp_path: Path, size: int, rows: int, dictionary: bool
) -> None:
    prompts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))
    columns = {"prompt": prompts, "completion": ["y"] * rows, "step": [1] * rows, "good": [1.0] * rows}
    file = tmp_path / "completions_1.parquet"
    if dictionary:
        pq.write_table(pa.table(columns), file, compression="zstd", dictionary_pagesize_limit=1 << 30)
    else:
        with pq.ParquetWriter(
            file,
            pa.schema([("prompt", "string"), ("completion", "string"), ("step", "int64"), ("good", "float64")]),
            compression="zstd",
            use_dictionary=False,
        ) as writer:
            for start in range(0, rows, 10):
                some = pa.table({key: values[start : start + 10] for key, values in columns.items()})
                writer.write_table(some.cast(writer.schema), row_group_size=rows)
    assert count(file, "trl") == [rows, rows]
