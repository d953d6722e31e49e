from pathlib import Path

from coevolve.core.attempts import attempt_of, read_attempts, read_visits
from coevolve.core.io import write_jsonl
from coevolve.core.records import Attempt


def test_attempts_are_read_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    made = [Attempt(f"t{n}", n // 3, n % 3, 0.5) for n in range(6)]
    write_jsonl(tmp_path / "attempts.jsonl", [made[n] for n in (4, 0, 5, 2, 1, 3)])
    assert read_attempts(tmp_path / "attempts.jsonl") == made


def test_visit_without_counted_episodes_is_no_attempt(tmp_path: Path) -> None:
    counted, failed = attempt_of("a", 0, 1, [1.0, 0.0]), attempt_of("b", 0, 0, [])
    assert (failed.score, failed.size, failed.successes) == (0.0, 0, 0)
    write_jsonl(tmp_path / "attempts.jsonl", [counted, failed])
    assert read_attempts(tmp_path / "attempts.jsonl") == [counted]
    assert read_visits(tmp_path / "attempts.jsonl") == [failed, counted]
