"""Content hashes of JSON values, files and model directories."""

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any


def content_hash(value: Any, length: int = 16) -> str:
    """Hash of a JSON value: independent of key order, ``length`` hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def state_hash(value: Any) -> str:
    """``content_hash`` of a state that is a JSON value. Equal numbers have equal hashes: 5 and 5.0, 0.0 and -0.0."""
    return content_hash(by_value(value))


def by_value(value: Any) -> Any:
    """A copy of a JSON value in which equal numbers are equally written: 5.0 as 5, and -0.0 as 0."""
    if isinstance(value, dict):
        return {key: by_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [by_value(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def file_hash(path: Path, kind: str = "md5") -> str:
    """Hash of a file, by default the md5 that DVC uses. Reads in parts, because weights may exceed memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.new, kind, usedforsecurity=False)).hexdigest()


def policy_hash(path: Path) -> str:
    """Hash of a model directory: the names and contents of its files."""
    digest = hashlib.md5(usedforsecurity=False)
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        digest.update(f"{file.relative_to(path)}\0{file_hash(file)}\n".encode())
    return digest.hexdigest()
