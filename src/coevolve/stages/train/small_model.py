"""A small causal LM from scratch: its shape, training examples from conversations, and one supervised pass over them."""

import random
from collections.abc import Sequence
from typing import Any

CONTEXT = 768  # positions
IGNORED = -100  # the label of tokens that the policy did not write

Example = dict[str, list[int]]


def small(tokenizer: Any, layers: int, hidden: int, heads: int) -> Any:
    """A Llama with the vocabulary of ``tokenizer`` and random weights from torch's seed."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 5 // 2,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        attention_dropout=0.0,
    )
    return LlamaForCausalLM(shape)


def example(tokenizer: Any, messages: Sequence[dict[str, Any]]) -> Example:
    """The token ids of a conversation, with the assistant's tokens as labels."""
    ids = tokenizer.encode(tokenizer.apply_chat_template(list(messages), tokenize=False), add_special_tokens=False)
    assistant = tokenizer.convert_tokens_to_ids("<|assistant|>")
    labels, writes = [], False  # writes: whether the assistant writes the next token
    for token in ids:
        labels.append(token if writes else IGNORED)
        writes = token == assistant or (writes and token != tokenizer.eos_token_id)
    return {"input_ids": ids, "labels": labels}


def copy_examples(
    tokenizer: Any, symbols: Sequence[int], count: int, lengths: tuple[int, int], rng: random.Random
) -> list[Example]:
    """``count`` examples that repeat a random string of ``symbols``; its length lies in the range ``lengths``."""
    user, assistant = (tokenizer.convert_tokens_to_ids(f"<|{role}|>") for role in ("user", "assistant"))
    examples = []
    for _ in range(count):
        copied = [*rng.choices(symbols, k=rng.randint(*lengths)), tokenizer.eos_token_id]
        prompt = [user, *copied, assistant]
        examples.append({"input_ids": prompt + copied, "labels": [IGNORED] * len(prompt) + copied})
    return examples


def supervise(model: Any, tokenizer: Any, examples: list[Example], batch: int, rate: float, name: str) -> None:
    """One pass over ``examples`` by transformers' ``Trainer``: AdamW, warm-up, cosine decay."""
    import tempfile

    from transformers import DataCollatorForSeq2Seq, PrinterCallback, Trainer, TrainingArguments

    from coevolve.stages.train.progress_bar import ProgressBar

    if not examples:
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch,
            num_train_epochs=1,
            learning_rate=rate,
            lr_scheduler_type="cosine",
            warmup_steps=min(100, len(examples) // batch // 5),
            weight_decay=0.01,
            max_grad_norm=1.0,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=0,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=examples,
            data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True, label_pad_token_id=IGNORED),
            callbacks=[ProgressBar(name)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
