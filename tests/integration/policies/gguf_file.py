"""A small GGUF file with everything but the size: a Llama of two layers, a byte-level BPE, ChatML, special tokens."""

from pathlib import Path

import numpy as np

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HIDDEN, LAYERS, HEADS = 32, 2, 2


def write(file: Path, architecture: str = "llama", template: str = CHATML) -> Path:
    from gguf import GGUFWriter

    alphabet = [chr(one) for one in range(33, 127)] + ["Ġ", "Ċ"]  # how byte-level BPE writes a space and a new line
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "he", "ll"]
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        return rng.normal(0.0, 0.1, shape).astype(np.float32)

    out = GGUFWriter(file, architecture)
    out.add_context_length(256)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(2 * HIDDEN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(HIDDEN // HEADS)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(tokens)
    out.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    out.add_token_merges(["h e", "l l"])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_pad_token_id(2)
    out.add_unk_token_id(0)
    out.add_chat_template(template)
    out.add_tensor("token_embd.weight", weights(len(tokens), HIDDEN))
    out.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            out.add_tensor(f"blk.{layer}.{name}.weight", weights(HIDDEN, HIDDEN))
        for name, shape in (
            ("ffn_gate", (2 * HIDDEN, HIDDEN)),
            ("ffn_up", (2 * HIDDEN, HIDDEN)),
            ("ffn_down", (HIDDEN, 2 * HIDDEN)),
        ):
            out.add_tensor(f"blk.{layer}.{name}.weight", weights(*shape))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return file
