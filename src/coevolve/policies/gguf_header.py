"""Check the header of a GGUF file before a library reads it: no number in it may claim more than the file holds.

The libraries trust each number, loop over it and allocate memory for it. Layout of the file:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import mmap
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from struct import Struct
from typing import NamedTuple

ENTRIES = 2**21  # most values, tensors and elements of arrays: a tokenizer of 262,144 tokens has 1.4 million
DIMENSIONS = 4  # most dimensions of a tensor in ggml
TOKEN_BYTES = 1024  # most bytes of a text in an array: a token, a merge
ALIGNMENT, DEFAULT_ALIGNMENT = "general.alignment", 32
STRING, ARRAY = 8, 9  # numbers of the types
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, STRING: 8, 10: 8, 11: 8, 12: 8}  # fewest bytes of a value
INTEGERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 10: "Q", 11: "q"}  # as ``struct`` names them


class _Tensor(NamedTuple):
    shape: list[int]
    offset: int
    size: int  # bytes


def check(file: Path) -> int:
    """The number of weights in ``file``. A ValueError if its header is damaged or claims more than the file holds."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data)
        tensor_count, value_count = cursor.integer("Q"), cursor.integer("Q")
        cursor.enter(tensor_count + value_count)
        integers = {}
        for _ in range(value_count):
            key = cursor.text()
            if (value := _value(cursor, cursor.integer("I"))) is not None:
                integers[key.decode("utf-8", "replace")] = value
        tensors = [_tensor(cursor) for _ in range(tensor_count)]
        _check_places(tensors, cursor.at, integers.get(ALIGNMENT, DEFAULT_ALIGNMENT), len(data))
    _check_loops(integers, tensors)
    return sum(prod(tensor.shape) for tensor in tensors)


class _Cursor:
    """Reads forward in a file, after its magic and version. A read past the end is a ValueError."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self.at, self._order, self._entries = data, 0, "<", 0
        if self._read(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = self.integer("I")
        if version & 0xFFFF == 0:  # the file has the other byte order
            self.at, self._order = 4, ">"
            version = self.integer("I")
        if version not in (2, 3):
            raise ValueError(f"version {version} of GGUF, expected 2 or 3")

    def integer(self, kind: str) -> int:
        layout = Struct(self._order + kind)
        number: int = layout.unpack(self._read(layout.size))[0]
        return number

    def text(self, most: int | None = None) -> bytes:
        length = self.integer("Q")
        if most is not None and length > most:
            raise ValueError(f"a token of {length} bytes, expected at most {most}")
        return self._read(length)

    def skip(self, length: int) -> None:
        left = len(self._data) - self.at
        if length > left:
            raise ValueError(f"its header announces {length} bytes where {left} are left")
        self.at += length

    def enter(self, count: int) -> None:
        """Count entries of the header. Each costs its reader half a kilobyte, so they have a limit."""
        self._entries += count
        if self._entries > ENTRIES:
            raise ValueError(f"its header announces more than {ENTRIES} values, tensors and elements of arrays")

    def _read(self, length: int) -> bytes:
        self.skip(length)
        return self._data[self.at - length : self.at]


def _value(cursor: _Cursor, kind: int) -> int | None:
    """Read a value. Returns an integer, or the only integer of an array, as libraries do; None for other values."""
    if kind in INTEGERS:
        return cursor.integer(INTEGERS[kind])
    if kind == STRING:
        cursor.text()
    elif kind == ARRAY:
        return _array(cursor, cursor.integer("I"), cursor.integer("Q"))
    elif kind in SIZES:
        cursor.skip(SIZES[kind])
    else:
        raise ValueError(f"a value of the unknown type {kind}")
    return None


def _array(cursor: _Cursor, kind: int, length: int) -> int | None:
    if kind not in SIZES:
        raise ValueError(f"an array of the type {kind}, expected numbers or texts")
    cursor.enter(length)
    if length == 1:
        return _value(cursor, kind)
    if kind != STRING:
        cursor.skip(length * SIZES[kind])
        return None
    for _ in range(length):
        cursor.text(TOKEN_BYTES)
    return None


def _tensor(cursor: _Cursor) -> _Tensor:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    cursor.text()
    dimensions = cursor.integer("I")
    if dimensions > DIMENSIONS:
        raise ValueError(f"a tensor of {dimensions} dimensions, expected at most {DIMENSIONS}")
    shape = [cursor.integer("Q") for _ in range(dimensions)]
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(cursor.integer("I"))]
    return _Tensor(shape, cursor.integer("Q"), prod(shape) * block_bytes // block)


def _check_places(tensors: Sequence[_Tensor], end: int, alignment: int, size: int) -> None:
    """Raise a ValueError unless all tensors are in a file of ``size`` bytes, after the ``end`` of its header, without overlap."""
    if not 0 < alignment <= size:
        raise ValueError(f"{ALIGNMENT} is {alignment}")
    start = -(-end // alignment) * alignment
    if any(start + tensor.offset + tensor.size > size for tensor in tensors):
        raise ValueError("a tensor is larger than the file")
    if sum(tensor.size for tensor in tensors) > size:
        raise ValueError("its tensors together are larger than the file")


def _check_loops(integers: Mapping[str, int], tensors: Sequence[_Tensor]) -> None:
    """Raise a ValueError if a model would loop over more layers than tensors exist, or over more experts than a tensor has rows."""
    limits = {"block_count": len(tensors), "expert_count": max((max(t.shape, default=0) for t in tensors), default=0)}
    for key, value in integers.items():
        limit = limits.get(key.rpartition(".")[2])
        if limit is not None and value > limit:
            raise ValueError(f"{key} is {value}, but its tensors have at most {limit}")
