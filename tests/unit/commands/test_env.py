"""`coevolve env` with hostile texts of an environment."""

from pathlib import Path

import pytest

from tests.cli import coevolve

PWN = r"\x1b]0;pwn\x07\u202e"
RUDE = f"""
from tests.unit.environments.quiz import Quiz, QuizSession

class Rude(Quiz):
    name = "rude"
    fingerprint = "rude {PWN}\\nminiworld is broken"
    panels = ("validation", "{PWN}")

    def tools(self):
        inner = {{"type": "object", "properties": {{"{PWN}": {{}}}}}}
        odd = {{"name": "{PWN}", "description": "{PWN}", "parameters": inner}}
        return [*super().tools(), {{"type": "function", "function": odd}}]

    def open(self):
        return Play()

class Play(QuizSession):
    def step(self, call):
        raise KeyError("{PWN}")

class Wrong(Quiz):
    def __init__(self):
        raise KeyError("{PWN}")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of packages with third-party environments."""
    about = tmp_path / "site/rude-0.1.dist-info"
    about.mkdir(parents=True)
    (tmp_path / "site/rude.py").write_text(RUDE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rude\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[coevolve.environments]\nrude = rude:Rude\nwrong = rude:Wrong\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.mark.parametrize("arguments", [["show", "rude"], ["check", "rude", "--tasks", "1", "--only", "contract"]])
def test_environment_texts_cannot_drive_the_terminal(site: None, arguments: list[str]) -> None:
    done = coevolve("env", *arguments)
    assert "rude" in done.stdout, done.stderr
    assert not {character for character in done.stdout + done.stderr if not character.isprintable()} - {"\n"}
    assert "\nminiworld is broken" not in done.stdout


def checked(habit: str, *options: str) -> tuple[int, list[str]]:
    """The exit code of a check of one of the unruly environments, and its lines without those that are ok."""
    place = f"tests.unit.environments.unruly:{habit}"
    done = coevolve("env", "check", place, "--tasks", "3", "--max-seconds", "0.5", *options)
    assert "Traceback" not in done.stderr
    return done.returncode, [line.strip() for line in done.stdout.splitlines()[1:] if not line.endswith(" ok")]


@pytest.mark.parametrize(
    ("habit", "said"),
    [
        ("Broken", "6 of 6 episodes broke: RuntimeError: the bulb is gone; the first is seed "),
        ("Alarmed", "6 of 6 episodes broke: ValueError: signal only works in main thread of the main interpreter; "),
        ("Looped", "6 of 6 episodes broke: RuntimeError: There is no current event loop"),
        ("Shut", "6 of 6 episodes count nowhere: no session started: OSError: the house is locked; the first is seed "),
        ("Leaving", "6 of 6 episodes broke: SystemExit: 3; "),
        ("Stuck", "6 of 6 episodes ran out of time: no answer within 0.5 s; "),
        ("Unlisted", "switches has no tasks of seed: KeyError: 'no list' ("),
    ],
)
def test_check_ends_with_one_line_where_evaluation_ends_with_an_error(habit: str, said: str) -> None:
    code, (check, cause, remedy, end) = checked(habit)
    assert code == 1 and check == "contract.episodes                  FAIL" and cause.startswith(said)
    assert "unruly.py, line " in cause or habit == "Stuck"
    assert remedy and end == "the other checks were not run: repair this first"


def test_an_exception_is_shown_once() -> None:
    code, lines = checked("Undigested", "--only", "contract", "runtime")
    assert code == 1
    assert [line for line in lines if "RuntimeError" in line] == [lines[1]] and "no state (" in lines[1]
    same = [line for line in lines if line.endswith(": the same exception as in contract.answers")]
    assert {line.split()[0] for line in same} >= {"contract.digest", "runtime.episode_isolation"}


def test_tasks_that_break_are_left_out_of_the_other_checks() -> None:
    code, lines = checked("Fragile", "--only", "contract", "runtime", "--tasks", "5")
    assert code == 1 and lines[1].startswith("2 of 8 episodes broke: RuntimeError: the bulb is gone; the first is ")
    assert [line.split()[0] for line in lines if "FAIL" in line] == ["contract.episodes"]


def test_a_wrong_value_must_not_raise() -> None:
    _, lines = checked("Keyed", "--only", "contract.bad_arguments")
    assert lines[0] == "contract.bad_arguments             FAIL"
    assert (
        lines[1].endswith("x'}) breaks the session: KeyError: 'porchx'") or "breaks the session: KeyError" in lines[1]
    )


def test_a_call_that_never_ends_ends_the_check() -> None:
    code, lines = checked("Undigesting", "--only", "contract.digest")
    assert code == 1
    assert lines[1:] == [
        "TimeoutError: no answer within 0.5 s",
        "let the call end, or allow it more time (max_seconds)",
        "the other checks were not run: repair this first",
    ]


def test_prints_are_counted_and_stand_apart() -> None:
    code, lines = checked("Shouting", "--only", "contract.answers")
    assert code == 0
    assert len(lines) == 1 and lines[0].startswith("the environment printed ") and lines[0].endswith("first: pressing")
