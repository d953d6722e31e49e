"""policies/0 as a pointer: a model from the hub or a path, pinned, so that DVC and git need not hold its weights."""

import re
from contextlib import suppress
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import read_json, write_json

POINTER = "pretrained.json"
WRITERS = {"base": "base", "generate": "generator"}  # the stage that points to the model of a section
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]  # of a model repository: no other formats of weights


def point(model: str, revision: str | None, folder: Path, section: str = "base") -> None:
    """Write a pointer to ``model`` into ``folder``: a path, or a hub name at ``revision``, which is downloaded now.

    A branch or tag is pinned to the commit that it names today; a path to the hash of its files. ``section`` of params.yaml names it.
    """
    for file in folder.glob("*") if folder.is_dir() else ():
        file.unlink()
    if Path(model).is_dir():
        if revision is not None:
            raise CoevolveError(f"{section}.revision is for models from the hub; set it to null for a path")
        pinned = {"model": str(Path(model).resolve()), "files": _files(Path(model))}
    else:
        pinned = {"model": model, "revision": _commit(_download(model, revision, section), model, section)}
    write_json(folder / POINTER, pinned if section == "base" else {**pinned, "section": section})


def resolve(folder: Path) -> Path:
    """The model directory that ``folder`` is, or that its pointer names; a CoevolveError if it is another by now."""
    if not (folder / POINTER).exists():
        return folder
    pinned = read_json(folder / POINTER)
    section = pinned.get("section", "base")
    if "revision" in pinned:
        return _download(pinned["model"], pinned["revision"], section)
    place, again = Path(pinned["model"]), f"dvc repro -f {WRITERS[section]}"
    if not place.is_dir():
        raise CoevolveError(f"{folder / POINTER}: {place} is gone; bring it back, or run `{again}`")
    if _files(place) != pinned["files"]:
        raise CoevolveError(f"{folder / POINTER}: the files of {place} have changed; run `{again}` to pin them")
    return place


def _files(place: Path) -> str:
    """Hash of the names, sizes and, for small ones, contents of the files of a model directory."""
    found = []
    for file in sorted(one for one in place.rglob("*") if one.is_file()):
        size = file.stat().st_size
        text = file.read_bytes().hex() if size < 2**20 else str(file.stat().st_mtime_ns)
        found.append([str(file.relative_to(place)), size, content_hash(text)])
    return content_hash(found, 32)


def _download(model: str, revision: str | None, section: str = "base") -> Path:
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
