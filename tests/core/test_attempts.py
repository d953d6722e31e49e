from pathlib import Path

from coevolve.core.attempts import read_attempts
from coevolve.core.io import write_jsonl
from coevolve.core.records import Attempt


def test_attempts_come_back_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    made = [Attempt(f"t{n}", n // 3, n % 3, 0.5) for n in range(6)]
    write_jsonl(tmp_path / "attempts.jsonl", [made[n] for n in (4, 0, 5, 2, 1, 3)])
    assert read_attempts(tmp_path / "attempts.jsonl") == made
