"""What progress bars say about time, with a fake clock."""

import sys

import pytest

from coevolve.core.progress import bar


@pytest.mark.parametrize(
    ("terminal", "times"), [(True, ["04:40", "05:00", "05:20"]), (False, ["00:00", "03:20", "05:20"])]
)
def test_time_left_does_not_depend_on_the_number_of_updates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, times: list[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with bar(3, "study", "runs") as progress:
        for done in [0] * 9 + [1] + [0] * 5 + [1]:
            now[0] += 20.0
            progress.update(done)
        shown = [line for line in capsys.readouterr().err.split("\r") if line.strip()]
    assert "2/3 [05:20<02:40, 160.00s/ runs]" in shown[-1]
    # in a terminal the clock moves during a wait; a log has a line where something was done
    assert [line.split("[")[1].split("<")[0] for line in shown][-3:] == times
