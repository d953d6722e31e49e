"""Steps that a killed process need not repeat: a file notes the finished ones and what they depend on."""

from collections.abc import Callable, Sequence
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json, write_json


class FinishedSteps:
    """The steps that are finished in ``folder``. Other inputs, options or code, by ``key``, begin anew."""

    def __init__(self, folder: Path, key: str) -> None:
        self._file, self._key = folder / "steps.json", key
        self._done: list[str] = []
        try:
            noted = read_json(self._file)
            if noted.get("key") == key and isinstance(noted.get("done"), list):
                self._done = [str(name) for name in noted["done"]]
        except CoevolveError:  # the file does not exist yet, or a crash damaged it
            pass
        self._next = 0

    def do(self, name: str, action: Callable[[], object], files: Sequence[Path]) -> bool:
        """Do the next step, which writes ``files``, unless it is finished. Returns whether it was done now."""
        position, self._next = self._next, self._next + 1
        if self._done[position : position + 1] == [name] and all(file.exists() for file in files):
            return False
        self._done = self._done[:position]
        self._note()  # the action replaces files, so a kill within it must not leave the old note
        action()
        self._done.append(name)
        self._note()
        return True

    def _note(self) -> None:
        write_json(self._file, {"key": self._key, "done": self._done})
