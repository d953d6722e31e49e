"""policies/base as a pointer: a model from the hub or a path, pinned, so that DVC and git need not hold its weights.

A path is relative to the repository's root, also in an experiment's copy of it, and is pinned as it was given: a clone
elsewhere finds its own.
"""

import re
from contextlib import suppress
from pathlib import Path

from coevolve.core import dvc
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash
from coevolve.core.io import read_json, write_json, write_text
from coevolve.core.scratch import scratch

POINTER = "pretrained.json"
WRITERS = {"base": "base", "generate": "generator"}  # the stage that points to the model of a section
COMMIT = re.compile(r"[0-9a-f]{40}")
LARGE = 2**20  # bytes from which a file is not read again to see whether it has changed
FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]  # of a model repository: no other formats of weights


def point(model: str, revision: str | None, folder: Path, section: str = "base") -> None:
    """Write a pointer to ``model`` into ``folder``: a path, or a hub name at ``revision``, which is downloaded now.

    A branch or tag is pinned to the commit that it names today; a path to the hash of its files. ``section`` of params.yaml names it.
    """
    for file in folder.glob("*") if folder.is_dir() else ():
        file.unlink()
    place = _place(model)
    if place.is_dir():
        if revision is not None:
            raise CoevolveError(f"{section}.revision is for models from the hub; set it to null for a path")
        pinned = {"model": model, "files": contents(place)}
    elif is_path(model):
        raise CoevolveError(f"{section}.model: there is no directory {place}")
    else:
        pinned = {"model": model, "revision": _commit(download(model, revision, section), model, section)}
    write_json(folder / POINTER, pinned if section == "base" else {**pinned, "section": section})


def named(folder: Path) -> str | None:
    """The model that the pointer in ``folder`` names; None if the weights are in ``folder`` itself."""
    return str(read_json(folder / POINTER)["model"]) if (folder / POINTER).exists() else None


def resolve(folder: Path) -> Path:
    """The model directory that ``folder`` is, or that its pointer names; a CoevolveError if it is another by now."""
    if not (folder / POINTER).exists():
        return folder
    pinned = read_json(folder / POINTER)
    section = pinned.get("section", "base")
    if "revision" in pinned:
        return download(pinned["model"], pinned["revision"], section)
    place, again = _place(pinned["model"]), f"dvc repro -f {WRITERS[section]}"
    if not place.is_dir():
        raise CoevolveError(f"{folder / POINTER}: {place} is gone; bring it back, or run `{again}`")
    if contents(place) != pinned["files"]:
        raise CoevolveError(f"{folder / POINTER}: the files of {place} have changed; run `{again}` to pin them")
    return place


def _place(model: str) -> Path:
    return dvc.root() / Path(model).expanduser()


def is_path(model: str) -> bool:
    """Whether ``model`` can only be meant as a path: on the hub, a name is one word, or two with a slash between them."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1 or ("/" in model and _place(model).parent.is_dir())


def contents(place: Path) -> str:
    """Hash of the names and contents of the files of a model directory."""
    files = sorted(one for one in place.rglob("*") if one.is_file())
    return content_hash([[str(file.relative_to(place)), _content(file)] for file in files], 32)


def _content(file: Path) -> str:
    """Hash of what ``file`` holds; of a large one, it is remembered for as long as the file has its size and time."""
    stat = file.stat()
    if stat.st_size < LARGE:
        return file_hash(file, "sha256")
    memory = scratch() / "hashes" / content_hash([str(file.resolve()), stat.st_size, stat.st_mtime_ns], 32)
    with suppress(OSError):
        return memory.read_text(encoding="ascii")
    found = file_hash(file, "sha256")
    write_text(memory, found)
    return found


def download(model: str, revision: str | None, section: str = "base") -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    from huggingface_hub.errors import RevisionNotFoundError as NoRevision

    at = f" at revision {revision}" if revision else ""
    with suppress(LocalEntryNotFoundError):  # a commit never changes: what is here need not be asked for
        if revision and COMMIT.fullmatch(revision):
            return Path(snapshot_download(model, revision=revision, allow_patterns=FILES, local_files_only=True))
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    except GatedRepoError:
        raise CoevolveError(
            f"{section}.model: {model} is gated; accept its terms on the hub and set HF_TOKEN"
        ) from None
    except NoRevision:
        raise CoevolveError(
            f"{section}.revision: {model} has no revision {revision!r}; take a commit from its page"
        ) from None
    except RepositoryNotFoundError:
        raise CoevolveError(f"{section}.model: {model!r} is no directory here and no model on the hub") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:160]
        raise CoevolveError(
            f"{section}.model: {model}{at} is not in the local cache and the hub cannot be reached ({reason}); download it where "
            f"there is a network with HF_HUB_OFFLINE=0, or set {section}.model to a model directory"
        ) from None


def _commit(snapshot: Path, model: str, section: str) -> str:
    if not COMMIT.fullmatch(snapshot.name):
        raise CoevolveError(
            f"{section}.model: the cache has no commit for {model} ({snapshot.name}); download it again"
        )
    return snapshot.name
