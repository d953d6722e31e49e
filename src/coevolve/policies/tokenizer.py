"""A tokenizer without a corpus: all pieces have the same score, so it cuts a text into as few pieces as possible."""

from collections.abc import Sequence
from typing import Any

from coevolve.policies.agent_prompt import OWN
from coevolve.policies.call_format import CLOSE, OPEN

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant", "tool")
# Prefix-preserving: further messages never change the rendered text before them.
TEMPLATE = (
    OWN + "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] or '' }}"
    "{% for call in message['tool_calls'] or [] %}"
    + OPEN
    + "{{ (call['function'] or call) | tojson }}"
    + CLOSE
    + "{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# Pieces of the JSON in calls and observations.
GLUE = [
    f'{OPEN}{{"name": "',
    '", "arguments": {"',
    f'", "arguments": {{}}}}{CLOSE}',
    f'"}}}}{CLOSE}',
    f"}}}}{CLOSE}",
    '": "',
    '": ',
    '", "',
    ', "',
    '[{"',
    '{"',
    '":"',
    '":',
    '","',
    ',"',
    '"},{"',
    '},{"',
    '"}]',
    "}]",
    '"}',
    "[]",
]


def build(names: Sequence[str], words: Sequence[str]) -> Any:
    """A ``PreTrainedTokenizerFast`` of ``names``, ``words``, the glue of JSON, characters and bytes.

    Each word also exists with a leading space. A name is the same token in an instruction, an observation and a call, so
    copying a name is copying one token.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    special = [PAD, END, *(f"<|{role}|>" for role in ROLES)]
    characters = [chr(code) for code in range(32, 127)] + ["\n"]
    pieces = dict.fromkeys([*special, *GLUE, *names, *words, *(f" {word}" for word in words), *characters])
    pieces.update(dict.fromkeys(f"<0x{byte:02X}>" for byte in range(256)))
    vocabulary = [(piece, -1.0) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def names(tokenizer: Any) -> list[str]:
    """The ``names`` that `build` gave ``tokenizer``, as far as they are letters: they have no twin with a leading space."""
    vocabulary = tokenizer.get_vocab()
    found = [piece for piece in vocabulary if len(piece) > 1 and piece.isalpha() and f" {piece}" not in vocabulary]
    return sorted(found, key=vocabulary.__getitem__)
