"""`coevolve env list` with an environment that speaks to the terminal. It opens the hosted environments, too."""

from tests.cli import coevolve
from tests.unit.commands.test_env import site  # noqa: F401  (a fixture)


def test_environment_texts_cannot_drive_the_terminal(site: None) -> None:  # noqa: F811
    done = coevolve("env", "list")
    assert "rude" in done.stdout and "miniworld    miniworld-1" in done.stdout, done.stderr
    assert not {character for character in done.stdout + done.stderr if not character.isprintable()} - {"\n"}
    assert "\nminiworld is broken" not in done.stdout
