"""Carry a llama model in 87 MB instead of 538: the blocks of its GGUF file (4 and 8 bits), compressed by byte planes.

    python benchmarks/gpu/model_pack.py pack models/smollm2 FILE.gguf OUT    # here; needs the package gguf
    python benchmarks/gpu/model_pack.py unpack IN models/smollm2             # on the GPU machine: numpy and safetensors

`pack` compares every dequantized tensor with the tensor in the model directory, bit for bit. `unpack` checks the SHA-256 of all
tensors. It takes seconds. Reading the GGUF file itself takes a minute, because its reader walks over the words of the vocabulary.
"""

import hashlib
import json
import lzma
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

CHUNK = 12_000_000  # bytes of blocks from which the next tensor goes to another file
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]
WIDTHS = {"F32": 4, "Q8_0": 34, "Q4_1": 20}  # bytes of a block, by type
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
HEADS = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}  # GGUF stores their rows in another order


def renamed(name: str) -> str:
    """transformers' name of GGUF's tensor ``name``, such as blk.0.attn_q.weight."""
    *layer, part, weight = name.split(".")
    return ".".join((*(["model.layers", layer[1]] if layer else []), NAMES[part], weight))


def dequantized(kind: str, blocks: np.ndarray, shape: list[int]) -> np.ndarray:
    """Float32 values of ``blocks`` (blocks × bytes) of a type."""

    def column(first: int, last: int | None, dtype: type) -> np.ndarray:
        return np.ascontiguousarray(blocks[:, first:last]).view(dtype).astype(np.float32)

    if kind == "F32":
        return column(0, None, np.float32).reshape(shape)
    if kind == "Q8_0":
        return (column(2, None, np.int8) * column(0, 2, np.float16)).reshape(shape)
    packed = blocks[:, 4:]  # of Q4_1: two values in a byte, after a scale and a least value
    values = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    return (values * column(0, 2, np.float16) + column(2, 4, np.float16)).reshape(shape)


def digest(tensors: dict[str, np.ndarray]) -> str:
    sums = [hashlib.sha256(tensors[name].tobytes()).hexdigest() for name in sorted(tensors)]
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def read(tensor: Any, name: str, config: dict[str, Any]) -> tuple[str, np.ndarray, list[int]]:
    """Type, blocks and shape of a tensor of a GGUF file, its rows in the order of transformers."""
    kind, shape = tensor.tensor_type.name, [int(size) for size in reversed(tensor.shape)]
    rows = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(shape[0], -1)
    if heads := config.get(HEADS.get(name.split(".")[-2], "")):
        rows = rows.reshape(heads, shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(shape[0], -1)
    return kind, np.ascontiguousarray(rows).reshape(-1, WIDTHS[kind]), shape


def pack(model: Path, file: Path, out: Path) -> None:
    from gguf import GGUFReader

    config, known = json.loads((model / "config.json").read_text()), load_file(model / "model.safetensors")
    entries, chunks = [], [bytearray()]
    for tensor in GGUFReader(str(file)).tensors:
        name = renamed(tensor.name)
        kind, blocks, shape = read(tensor, name, config)
        if name not in known or not np.array_equal(dequantized(kind, blocks, shape), known[name]):
            raise SystemExit(f"{name} of {file} differs from {model}")
        if len(chunks[-1]) > CHUNK:
            chunks.append(bytearray())
        at = {"chunk": len(chunks) - 1, "at": len(chunks[-1]), "bytes": blocks.size}
        entries.append({"name": name, "kind": kind, "shape": shape, **at})
        chunks[-1] += np.ascontiguousarray(blocks.T).tobytes()  # equal bytes of all blocks follow one another
    if {entry["name"] for entry in entries} != set(known):
        raise SystemExit(f"{model} has other tensors than {file}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        packed = list(pool.map(lambda part: lzma.compress(bytes(part), filters=FILTERS), chunks))
    for number, data in enumerate(packed):
        (out / f"{number:02}.xz").write_bytes(data)
    files = {small.name: small.read_text() for small in model.iterdir() if small.suffix in (".json", ".jinja")}
    index = {"tensors": entries, "files": files, "sha256": digest(known), "chunks": len(chunks)}
    (out / "index.xz").write_bytes(lzma.compress(json.dumps(index).encode()))
    size = sum(map(len, packed)) / 1e6
    print(f"{out}: {len(chunks)} files, {size:.1f} MB, every tensor equal to the tensor in {model}")


def unpack(folder: Path, out: Path) -> None:
    index = json.loads(lzma.decompress((folder / "index.xz").read_bytes()))
    with ThreadPoolExecutor() as pool:
        files = [folder / f"{number:02}.xz" for number in range(index["chunks"])]
        chunks = list(pool.map(lambda file: lzma.decompress(file.read_bytes()), files))
    tensors = {}
    for entry in index["tensors"]:
        planes = np.frombuffer(chunks[entry["chunk"]], np.uint8, entry["bytes"], entry["at"])
        blocks = np.ascontiguousarray(planes.reshape(WIDTHS[entry["kind"]], -1).T)
        tensors[entry["name"]] = dequantized(entry["kind"], blocks, entry["shape"])
    if digest(tensors) != index["sha256"]:
        raise SystemExit(f"{folder}: the unpacked weights are not those of the model")
    out.mkdir(parents=True, exist_ok=True)
    for name, text in index["files"].items():
        (out / name).write_text(text)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    print(f"{out}: {len(tensors)} tensors, SHA-256 as expected")


if __name__ == "__main__":
    action, *paths = sys.argv[1:]
    {"pack": pack, "unpack": unpack}[action](*map(Path, paths))
