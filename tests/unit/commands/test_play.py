"""`coevolve play NAME TASK`: TASK is a number in the split or the beginning of an id."""

import argparse
import io
from collections.abc import Callable

import pytest

from coevolve import register
from coevolve.commands import play
from coevolve.core.errors import CoevolveError
from coevolve.environments.registry import make
from tests.cli import coevolve
from tests.unit.stages.verify.test_candidates import Banks

TASKS = make("miniworld").tasks("seed")
Shown = Callable[[str], str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    def opened(wanted: str) -> str:
        """The id of the task that `coevolve play miniworld WANTED` opens."""
        monkeypatch.setattr("sys.stdin", io.StringIO("/quit\n"))
        play.run(argparse.Namespace(name="miniworld", task=wanted, split="seed"))
        return capsys.readouterr().out.partition("task ")[2].partition(";")[0]

    return opened


def test_number_names_a_task_even_if_an_id_begins_with_it(shown: Shown) -> None:
    ids = [task.task_id for task in TASKS]
    beginning = [number for number in range(10, 100) if sum(name.startswith(str(number)) for name in ids) == 1]
    assert beginning, "no task shows the difference"
    assert {shown(str(number)) == ids[number] for number in beginning[:3]} == {True}


def test_beginning_of_an_id_names_the_task(shown: Shown) -> None:
    assert shown(TASKS[5].task_id[:10]) == TASKS[5].task_id


@pytest.mark.parametrize("wanted", ["256", "999"])
def test_number_beyond_the_split_is_an_error_with_the_range(shown: Shown, wanted: str) -> None:
    with pytest.raises(CoevolveError, match=f"miniworld has no task '{wanted}' in seed; expected .* number below 256"):
        shown(wanted)


def test_call_that_breaks_the_session_ends_play_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.environments.registry.REGISTERED", {})
    register(Banks)
    done = coevolve("play", "banks", typed='transfer("ada", "eve", 2)\ntransfer("ada", "nobody", 2)\n')
    assert (done.returncode, done.stderr) == (0, "")
    assert "the call broke the session: MemoryError" in done.stdout and "score 0.00" in done.stdout


def test_help_lists_the_commands() -> None:
    told = coevolve("play", "miniworld", typed="/help\n/nonsense\n").stdout
    assert told.count("/quit or Ctrl-D            end the episode") == 2
