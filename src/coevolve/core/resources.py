"""Find the files that every project needs: the wheel holds them in the package, the repository keeps them at its root."""

from pathlib import Path

from coevolve.core.code_closure import PACKAGE, SOURCE


def resource(name: str) -> Path:
    """The path of ``name``, for example `params.yaml`."""
    packaged = SOURCE / PACKAGE / "project" / name
    return packaged if packaged.exists() else SOURCE.parent / name
