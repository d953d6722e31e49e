"""No number of a GGUF header may claim more than the file holds: what passes the check, its readers can read."""

import struct
from pathlib import Path

import pytest
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.policies.gguf_header import check
from tests.integration.policies.gguf_file import write

NUMBERS = st.sampled_from(
    [0, 1, 2, 7, 8, 9, 12, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**60, 2**62, 2**63, 2**64 - 1]
)
# An array of 2^62 bytes in a file of 102
SHORT = (
    struct.pack("<4sIQQ", b"GGUF", 3, 0, 2)
    + struct.pack("<Q20sIQ5s", 20, b"general.architecture", 8, 5, b"llama")
    + struct.pack("<Q9sIIQ", 9, b"general.x", 9, 0, 2**62)
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("gguf") / "sound.gguf")


def test_the_weights_of_a_sound_file_are_counted(sound: Path) -> None:
    assert check(sound) == sum(tensor.n_elements for tensor in GGUFReader(sound).tensors)


@settings(deadline=None)
@given(data=st.data())
def test_what_passes_the_check_is_read_within_the_file(sound: Path, data: st.DataObject) -> None:
    """Forged: up to three numbers anywhere in the header."""
    content = bytearray(sound.read_bytes())
    header = GGUFReader(sound).data_offset
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["<I", "<Q"]))
        place = data.draw(st.integers(0, header - 8))
        number = data.draw(NUMBERS) % 2 ** (8 * struct.calcsize(kind))
        content[place : place + struct.calcsize(kind)] = struct.pack(kind, number)
    forged = sound.with_name("forged.gguf")
    forged.write_bytes(content)
    try:
        weights = check(forged)
    except ValueError:
        return
    assert weights <= 8 * len(content)
    try:
        reader = GGUFReader(forged)
    except (ValueError, KeyError):  # such as a key that stands twice
        return
    assert sum(tensor.n_elements for tensor in reader.tensors) == weights
    assert sum(len(field.parts) for field in reader.fields.values()) <= len(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (SHORT, "announces more than"),
        (b"", "cannot mmap an empty file"),
        (b"GGUF", "4 bytes where 0 are left"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 2**62, 0), "announces more than"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**20), "announces 8 bytes where 0 are left"),
        (struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 2**62), f"announces {2**62} bytes where 0 are left"),
        (struct.pack("<4sIQQQ1sIIQ", b"GGUF", 3, 0, 1, 1, b"x", 9, 9, 1), "an array of the type 9"),
        (struct.pack("<4sIQQQ1sIIQQ", b"GGUF", 3, 0, 1, 1, b"x", 9, 8, 2, 2**20), "a token of 1048576 bytes"),
        (struct.pack("<4sIQQQ1sIQ", b"GGUF", 3, 0, 1, 1, b"x", 13, 0), "unknown type 13"),
        (struct.pack("<4sIQQQ1sI", b"GGUF", 3, 1, 0, 1, b"x", 2**31), "2147483648 dimensions"),
        (struct.pack("<4sIQQQ1sIQQIQ", b"GGUF", 3, 1, 0, 1, b"x", 2, 2**40, 2**40, 0, 0), "a tensor is larger than"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 2**62), "announces more than"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0), "version 1 of GGUF"),
    ],
)
def test_a_claim_beyond_the_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        check(tmp_path / "x.gguf")


def test_tensors_do_not_share_their_bytes(sound: Path, tmp_path: Path) -> None:
    """A file could else hold many large tensors in the same place."""
    reader = GGUFReader(sound)
    content = bytearray(sound.read_bytes())
    largest = max(reader.tensors, key=lambda tensor: tensor.n_bytes)
    for tensor in reader.tensors:
        *_, dims, kind, offset = tensor.field.parts
        start = tensor.field.offset + sum(int(part.nbytes) for part in tensor.field.parts)
        if len(dims) == 2:
            first = start - offset.nbytes - kind.nbytes - dims.nbytes
            content[first : first + dims.nbytes] = struct.pack("<2Q", *map(int, largest.shape))
            content[start - 8 : start] = struct.pack("<Q", largest.data_offset - reader.data_offset)
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ValueError, match="together are larger"):
        check(tmp_path / "x.gguf")
