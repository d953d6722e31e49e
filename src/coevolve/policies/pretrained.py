"""policies/base as a pinned pointer to a model on the hub or at a path, so that DVC and git need not hold its weights.

A path is relative to the repository's root, also in an experiment's copy of the repository. The pointer holds the path as the user
gave it, so another clone uses its own model.
"""

import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.hashing import content_hash, file_hash
from coevolve.core.io import read_json, write_json, write_text
from coevolve.core.plugins import plugins
from coevolve.core.scratch import dvc_root, scratch

SHIPPED = "coevolve.policies"  # entry points of policies that packages ship: name → the package with the files
POINTER = "pretrained.json"
WRITERS = {"base": "base", "generate": "generator"}  # section → the stage that writes the pointer to its model
COMMIT = re.compile(r"[0-9a-f]{40}")
LARGE = 2**20  # bytes from which the hash of an unchanged file is remembered
# files of a model repository, without other weight formats
FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]


def point(model: str, revision: str | None, folder: Path, section: str = "base") -> None:
    """Write a pointer to ``model`` into ``folder``. It is a path, or a hub name at ``revision``, which is downloaded now.

    The pointer pins a branch or tag to its current commit, and a path to the hash of its files. Errors name ``section`` of
    params.yaml.
    """
    for file in folder.glob("*") if folder.is_dir() else ():
        file.unlink()
    if (place := directory(model, section)) is not None:
        if revision is not None:
            raise CoevolveError(f"{section}.revision is for models from the hub; set it to null for a path")
        pinned = {"model": model, "files": contents(place)}
    else:
        commit = download(model, revision, section).name
        if not COMMIT.fullmatch(commit):
            raise CoevolveError(f"{section}.model: the cache has no commit for {model} ({commit}); download it again")
        pinned = {"model": model, "revision": commit}
    write_json(folder / POINTER, pinned if section == "base" else {**pinned, "section": section})


def shipped(name: str) -> Path | None:
    """The model directory that a package ships as ``name``, such as `tiny`; None if none does."""
    if (point := plugins(SHIPPED).get(name)) is None:
        return None
    spec = find_spec(point.value)
    if spec is None or not spec.submodule_search_locations:
        raise CoevolveError(f"entry point {name} = {point.value} of {SHIPPED} names no folder of a package")
    return Path(spec.submodule_search_locations[0])


def directory(model: str, section: str = "base") -> Path | None:
    """The model directory ``model``, or None if ``model`` is a name on the hub. Errors name ``section`` of params.yaml."""
    place = _place(model)
    if not place.is_dir():
        if is_path(model):
            raise CoevolveError(
                f"{section}.model: no such directory {place}; expected a model directory or a name on the hub"
            )
        return None
    if not (place / "config.json").is_file():
        raise CoevolveError(f"{section}.model: {place} is not a model directory: config.json is missing")
    return place


def named(folder: Path) -> str | None:
    """The model that the pointer in ``folder`` names; None if the weights are in ``folder`` itself."""
    return str(read_json(folder / POINTER)["model"]) if (folder / POINTER).exists() else None


def resolve(folder: Path) -> Path:
    """The model directory ``folder``, or the one that its pointer names. A changed model is a CoevolveError."""
    if not (folder / POINTER).exists():
        return folder
    pinned = read_json(folder / POINTER)
    section = pinned.get("section", "base")
    if "revision" in pinned:
        return download(pinned["model"], pinned["revision"], section)
    place, again = _place(pinned["model"]), f"dvc repro -f {WRITERS[section]}"
    if not place.is_dir():
        raise CoevolveError(f"{folder / POINTER}: {place} is missing; restore it, or run `{again}`")
    if contents(place) != pinned["files"]:
        raise CoevolveError(f"{folder / POINTER}: the files of {place} have changed; run `{again}` to pin them")
    return place


def _place(model: str) -> Path:
    return dvc_root() / Path(model).expanduser()


def is_path(model: str) -> bool:
    """Whether ``model`` must be a path: a name on the hub is a word, or two words with a slash between them."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1 or ("/" in model and _place(model).parent.is_dir())


def contents(place: Path) -> str:
    """Hash of the names and contents of the files of a model directory."""
    files = sorted(one for one in place.rglob("*") if one.is_file())
    return content_hash([[str(file.relative_to(place)), _content(file)] for file in files], 32)


def _content(file: Path) -> str:
    """Hash of the contents of ``file``. For a large file it is cached until the file's size or time changes."""
    stat = file.stat()
    if stat.st_size < LARGE:
        return file_hash(file, "sha256")
    memory = scratch() / "hashes" / content_hash([str(file.resolve()), stat.st_size, stat.st_mtime_ns], 32)
    with suppress(OSError):
        return memory.read_text(encoding="ascii")
    found = file_hash(file, "sha256")
    write_text(memory, found)
    return found


def download(model: str, revision: str | None, section: str = "base", look: bool = False) -> Path:
    """The folder of a model on the hub. With ``look``, only ask whether the cache or the hub has it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    from huggingface_hub.errors import RevisionNotFoundError as NoRevision

    at = f" at revision {revision}" if revision else ""
    with suppress(LocalEntryNotFoundError):  # a commit never changes, so a local copy needs no request
        if look or (revision and COMMIT.fullmatch(revision)):
            return Path(snapshot_download(model, revision=revision, allow_patterns=FILES, local_files_only=True))
    try:
        if look:
            snapshot_download(model, revision=revision, allow_patterns=FILES, dry_run=True)
            return Path()
        return Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    except GatedRepoError:
        raise CoevolveError(
            f"{section}.model: {model} is gated; accept its terms on the hub and set HF_TOKEN"
        ) from None
    except NoRevision:
        raise CoevolveError(
            f"{section}.revision: {model} has no revision {revision!r}; choose a commit from its page"
        ) from None
    except RepositoryNotFoundError:
        raise CoevolveError(f"{section}.model: {model!r} is neither a directory here nor a model on the hub") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        raise CoevolveError(
            f"{section}.model: {model}{at} is not in the local cache and the hub cannot be reached ({first_line(error)}); download it on a "
            f"machine with a network and HF_HUB_OFFLINE=0, or set {section}.model to a model directory"
        ) from None


def stored_dtype(source: Path) -> str:
    """The type of the weights in the model directory ``source``, as torch names it."""
    from transformers import AutoConfig

    return str(
        AutoConfig.from_pretrained(str(source), trust_remote_code=False).get_text_config().dtype or "float32"
    ).removeprefix("torch.")


def weights_size(source: Path, dtype: str) -> int:
    """Bytes of the weights in the model directory ``source`` as ``dtype``."""
    import torch

    held = sum(file.stat().st_size for file in source.glob("*.safetensors"))
    return int(held * getattr(torch, dtype).itemsize / getattr(torch, stored_dtype(source)).itemsize)


def device() -> str:
    """The device for models: this process's GPU, or the CPU."""
    import torch

    return f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
