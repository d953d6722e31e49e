"""The scripts of benchmarks/gpu in their small form, on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from coevolve.core.io import write_json
from tests import ROOT
from tests.project import clone

GPU = ROOT / "benchmarks/gpu"
BLOCK = "import sys\nsys.modules.update(dict.fromkeys(('mlflow', 'dvc', 'great_expectations')))\n"
MISSING = "mlflow refuses: No module named"


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(GPU / script), *map(str, arguments)], capture_output=True, text=True)


def test_small_cases_are_measured(tmp_path: Path) -> None:
    """Adapters in bfloat16, whose rounding must not end training, and all weights."""
    cases, out = ("smoke-bf16-share", "smoke-full-share"), tmp_path / "cases.jsonl"
    done = python("bench.py", "--cases", *cases, "--steps", 1, "--reply", 8, "--out", out)
    assert done.returncode == 0, done.stderr[-2000:]
    measured = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["case"] for one in measured] == list(cases)
    for one in measured:
        assert one["sampled_rate"] > 0 and one["trained_rate"] > 0
        assert f"| {one['case']} | {one['rollout_seconds']:.3g} |" in done.stdout


def test_second_call_brings_back_results_and_adapters(tmp_path: Path) -> None:
    """The lent machine has neither MLflow, DVC nor Great Expectations. With `tracking.mlflow: enabled` training says so."""
    out, work, again = (tmp_path / name for name in ("out", "work", "again"))
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    project = clone(tmp_path / "tree")
    project.environment |= {"PYTHONPATH": f"{tmp_path}", "OUT": f"{out}", "WORK": f"{work}"}
    project.run("bash", "benchmarks/gpu/second.sh", *(GPU / "small.txt").read_text().split())
    adapters = {f"adapter-{t}/adapter_{name}" for t in (0, 1) for name in ("config.json", "model.safetensors")}
    files = {"log.txt", "results.txt", "run.tgz", "train_metrics.jsonl"} | adapters
    assert {str(file.relative_to(out)) for file in out.rglob("*.*")} == files
    steps = [json.loads(line) for line in (out / "train_metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 2 and any(step["grad_norm"] > 0 for step in steps)
    results, run = (out / "results.txt").read_text(), work / "run"
    assert all(line in results for line in ("policies/0, validation: solves", "gain, validation: ", "step 1: success"))
    assert python("arm.py", "policy", run / "policies/0", out / "adapter-1", again).returncode == 0
    assert (again / "model.safetensors").read_bytes() == (run / "policies/1/model.safetensors").read_bytes()
    assert MISSING not in (run / "stages.txt").read_text()
    project.folder, project.environment["PYTHONPATH"] = run, f"{tmp_path}:src"
    project.set(tracking__mlflow="enabled", train__steps=1)
    project.run(sys.executable, "-m", "coevolve.cli", "stage", "code")
    done = project.run(sys.executable, "pipelines/train.py", "0")
    assert MISSING in done.stdout + done.stderr


def test_packed_model_is_the_model_again(tmp_path: Path) -> None:
    """Blocks of every type, and rows in another order, against gguf's and transformers' own reading."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import dequantize, quantize
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

    model, file, packed, again = (tmp_path / name for name in ("model", "file.gguf", "packed", "again"))
    write_json(model / "config.json", {"num_attention_heads": 2, "num_key_value_heads": 1})
    writer, weights, query = GGUFWriter(file, "llama"), {}, "model.layers.0.self_attn.q_proj.weight"
    names = {"token_embd": "model.embed_tokens.weight", "blk.0.attn_q": query, "output_norm": "model.norm.weight"}
    for kind, (name, known) in zip(("Q8_0", "Q4_1", "F32"), names.items(), strict=True):
        values = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
        blocks = quantize(values, type_ := GGMLQuantizationType[kind])
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=type_)
        weights[known] = dequantize(blocks, type_)
    weights[query] = LlamaTensorProcessor({})._reverse_permute_weights(weights[query], 2)
    for part in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, part)()
    save_file(weights, model / "model.safetensors")
    for arguments in (("pack", model, file, packed), ("unpack", packed, again)):
        assert (done := python("model_pack.py", *arguments)).returncode == 0, done.stderr
    unpacked = load_file(again / "model.safetensors")
    assert unpacked.keys() == weights.keys() and all((unpacked[name] == weights[name]).all() for name in weights)
    weights[query][0, 0] += 1
    save_file(weights, model / "model.safetensors")
    assert f"{query} of" in python("model_pack.py", "pack", model, file, packed).stderr
