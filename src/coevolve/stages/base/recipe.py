"""How the tiny policy is made: able first (copying, then right demonstrations), then unreliable.

A policy converged on right demonstrations leaves GRPO nothing to choose from; one stopped early lacks skills that
reinforcement cannot give it. So it learns to be right, and then to be wrong in its choice of calls alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import settle
from coevolve.core.params import Base
from coevolve.core.seeding import derive_seed, generator
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.stages.base.demonstrate import demonstrations, unreliable_chances
from coevolve.stages.base.tokenizer import build

CONTEXT = 768  # positions
COPY_LENGTHS = (6, 24)  # of the strings to repeat
IGNORED = -100  # the label of tokens that are not the policy's own

Example = dict[str, list[int]]


def make(config: Base, folder: Path) -> None:
    """Train the tiny policy by ``config`` and save it to ``folder`` as a transformers model directory."""
    import torch

    settle(threads=1)
    tokenizer = build(*Miniworld.lexicon())
    torch.manual_seed(config.seed)
    model = _model(config, tokenizer)
    low, high = config.unreliability
    chances = unreliable_chances(low, high, config.seed)
    right, wrong = (derive_seed("base", config.seed, name) for name in ("right", "unreliable"))
    copies = copying(tokenizer, config.copy_steps * config.copy_batch, config.seed)
    supervise(model, tokenizer, copies, config.copy_batch, config.learning_rate, "copying")
    for name, steps, seed, spoilt, rate in (
        ("right demonstrations", config.demonstration_steps, right, {}, config.learning_rate),
        ("unreliable demonstrations", config.unreliable_steps, wrong, chances, config.learning_rate / 2),
    ):
        episodes = demonstrations(steps * config.batch, seed, spoilt)
        examples = [example(tokenizer, messages) for messages in episodes]
        supervise(model, tokenizer, examples, config.batch, rate, name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _model(config: Base, tokenizer: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.hidden * 5 // 2,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        attention_dropout=0.0,
    )
    return LlamaForCausalLM(shape)


def copying(tokenizer: Any, count: int, seed: int) -> list[Example]:
    """Random strings and their repetition, over digits, letters of identifiers and whole values."""
    words = [name for name in Miniworld.lexicon()[0] if name.isalpha()]
    symbols = [tokenizer.convert_tokens_to_ids(symbol) for symbol in [*words, *"0123456789" * 4, *"cmefi" * 2]]
    user, assistant = (tokenizer.convert_tokens_to_ids(f"<|{role}|>") for role in ("user", "assistant"))
    rng = generator("copying", seed)
    examples = []
    for _ in range(count):
        string = rng.choices(symbols, k=rng.randint(*COPY_LENGTHS))
        own = [*string, tokenizer.eos_token_id]
        head = [user, *own, assistant]
        examples.append({"input_ids": head + own, "labels": [IGNORED] * len(head) + own})
    return examples


def example(tokenizer: Any, messages: Sequence[dict[str, Any]]) -> Example:
    """Token ids of a conversation, with the policy's own tokens as labels."""
    ids = tokenizer.encode(tokenizer.apply_chat_template(list(messages), tokenize=False), add_special_tokens=False)
    assistant = tokenizer.convert_tokens_to_ids("<|assistant|>")
    labels, own = [], False
    for token in ids:
        labels.append(token if own else IGNORED)
        own = token == assistant or (own and token != tokenizer.eos_token_id)
    return {"input_ids": ids, "labels": labels}


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
