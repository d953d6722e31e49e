"""A transformers causal LM that acts in many conversations at the same time, with one KV cache for the whole episode.

All rows advance together: one forward pass prefills the new tokens of a turn for all rows, and then every row decodes a token per
pass. Rows have different lengths, so the cache has holes. The attention mask covers the holes, and every turn closes them. The
cache and training use exactly the sampled tokens: nothing is tokenized again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache, DynamicLayer

from coevolve.core.arithmetic import settle
from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.memory import free_memory
from coevolve.policies.agent_prompt import Listener, Renderer, check_room, check_template
from coevolve.policies.policy import Conversation, Reply
from coevolve.policies.prefix_attention import Prefix, attending, attends

ROOM = 64  # fewest free columns after a layer of the cache moves to a new buffer
CHUNK = 32  # random numbers drawn at a time for a reply
LARGE = 10_000_000  # weights of a model whose pass takes longer for more rows; a small model's pass does not
FEWER = 0.75  # share of a pass's rows that still write, from which a large model's next pass leaves out the others
SHARED = 64  # fewest common tokens of first prompts (mostly the tools) that are worth a separate pass


def load(
    path: Path | str,
    threads: int = 1,
    dtype: str = "float32",
    quantize: str = "none",
    place: str | None = None,
    copies: int = 1,
) -> tuple[Any, Any]:
    """The model and the tokenizer of a transformers model directory, or of the model that its pointer names, for inference.

    ``dtype`` is a torch dtype's name. ``quantize`` "4bit" loads the weights as NF4 (QLoRA, arXiv 2305.14314). ``place`` is a torch
    device; None means the GPU if there is one. The caller needs memory for ``copies`` of the weights, gradients and moments of
    the optimizer included: without it, this raises a CoevolveError.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from coevolve.policies.pretrained import device, resolve

    logging.disable_progress_bar()
    settle(threads)
    source = resolve(Path(path))
    more = {"quantization_config": _four_bits()} if quantize == "4bit" else {}
    try:
        if not more and (place or device()) == "cpu" and (source / "config.json").exists():  # adapters alone have none
            _check_memory(source, dtype, copies)
        # saved policies contain local_files_only, whose default depends on HF_HUB_OFFLINE
        tokenizer = AutoTokenizer.from_pretrained(str(source), local_files_only=True, trust_remote_code=False)
        model, loaded = AutoModelForCausalLM.from_pretrained(
            str(source), dtype=getattr(torch, dtype), trust_remote_code=False, output_loading_info=True, **more
        )
        if lost := sorted(loaded["missing_keys"]):  # transformers would fill them with random numbers
            raise CoevolveError(
                f"{path}: its files lack {len(lost)} of the weights that config.json names, such as {lost[0]}; get a whole copy "
                "of the model, or its own config.json"
            )
    except CoevolveError:
        raise
    except Exception as error:  # damaged files raise many errors, and tokenizers a bare Exception
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise
        reason = first_line(error)
        raise CoevolveError(
            f"{path}: expected a transformers model directory with a tokenizer ({type(error).__name__}: {reason}); "
            "bring its files back: by `dvc checkout`, by the stage that writes them, or by another download"
        ) from None
    check_template(tokenizer, str(path))
    return (model if more else model.to(place or device())).eval(), tokenizer


def _check_memory(source: Path, dtype: str, copies: int) -> None:
    """Refuse what cannot fit: an operating system that runs out of memory ends processes without a word."""
    from coevolve.policies.pretrained import weights_size

    needed, free = copies * weights_size(source, dtype), free_memory()
    if needed > free:
        training = "; train adapters (train.lora.enabled: true)" if copies > 1 else ""
        raise CoevolveError(
            f"{source} needs at least {needed / 1e9:.1f} GB of memory, for {copies} times its weights in {dtype}, and "
            f"{free / 1e9:.1f} GB are free{training or '; end other programs'}, or choose a smaller model"
        )


def _four_bits() -> Any:
    from importlib.util import find_spec

    if find_spec("bitsandbytes") is None or not torch.cuda.is_available():
        raise CoevolveError(
            "train.lora.quantize: 4bit needs a GPU and bitsandbytes; install it with `pip install bitsandbytes`, or set none"
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_quant_storage=torch.bfloat16,  # so that FSDP and ZeRO-3 can shard it
    )


def end_tokens(generation_config: Any, tokenizer: Any) -> list[int]:
    """Ids that end a reply: those of the model's generation config and the tokenizer."""
    ends = getattr(generation_config, "eos_token_id", None)
    known = ends if isinstance(ends, list) else [ends] if ends is not None else []
    return sorted({*known, tokenizer.eos_token_id})


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """A layer of the KV cache with spare room. Transformers' ``DynamicLayer`` copies its whole contents for every token.

    Keys and values (rows × heads × columns × width) are views of buffers that are a quarter longer than needed. While ``active``
    is set, a pass reads and writes these rows alone.
    """

    active: torch.Tensor | None = None
    _buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        held = self.get_seq_length()
        width = held + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < width:
            self._buffers = (
                self._moved(self.keys, held, width, key_states),  # type: ignore[has-type]
                self._moved(self.values, held, width, value_states),  # type: ignore[has-type]
            )
        keys, values = self._buffers
        rows = slice(None) if self.active is None else self.active
        keys[rows, :, held:width] = key_states
        values[rows, :, held:width] = value_states
        self.keys, self.values = keys[:, :, :width], values[:, :, :width]
        return self.keys[rows], self.values[rows]

    def _moved(self, old: torch.Tensor, held: int, width: int, like: torch.Tensor) -> torch.Tensor:
        _, heads, _, size = like.shape
        rows = len(old) if held else len(like)
        new = like.new_zeros(rows, heads, width + max(width // 4, ROOM), size)
        if held:
            new[:, :, :held] = old
        return new

    def select(self, rows: torch.Tensor, columns: torch.Tensor | None = None) -> None:
        """Keep ``rows``, each as often as it is named, in this order. Of each row keep ``columns`` (rows × kept) or all columns."""
        self._buffers = None
        for name in ("keys", "values"):
            kept = getattr(self, name)[rows]
            if columns is not None:
                kept = kept.gather(2, columns[:, None, :, None].expand(-1, kept.shape[1], -1, kept.shape[3]))
            setattr(self, name, kept)


class TransformersPolicy:
    """See ``coevolve.policies.policy.Policy``. ``temperature`` 0 is greedy."""

    def __init__(
        self, model: Any, tokenizer: Any, temperature: float, template: Mapping[str, Any] | None = None
    ) -> None:
        self.model = model
        self._temperature = temperature
        self._listener = Listener(Renderer(tokenizer, template))
        self._context = int(getattr(model.config, "max_position_embeddings", 2**31))
        self._ends = torch.tensor(end_tokens(model.generation_config, tokenizer))
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self._attends = attends(model)
        self._narrows = sum(weights.numel() for weights in model.parameters()) >= LARGE
        self._forget()

    def _forget(self) -> None:
        # the common prefix of all rows, if the model attends to it outside of the cache
        self._prefix: Prefix | None = None
        self._prefix_tokens = 0
        self._cache = Cache(layer_class_to_replicate=GrowingLayer)
        self._rows: list[int] = []  # the keys of the conversations, in the order of the cache's rows
        # rows × columns: true where the cache holds a token
        self._held = torch.zeros(0, 0, dtype=torch.bool)
        self._listener.begin()
        self._turns: dict[int, int] = {}
        self._last: dict[int, list[int]] = {}  # the last sampled token, which no pass has read yet

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._forget()
        self._rows = [one.key for one in conversations]
        self._held = torch.zeros(len(conversations), 0, dtype=torch.bool)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                return self._act(conversations)
        finally:
            self.model.train(training)

    def _act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        self._keep([one.key for one in conversations])
        first = self._listener.fresh
        prompts = [self._listener.heard(one) for one in conversations]
        if first:
            check_room(conversations, prompts, self._context)
        fed = [self._last.get(one.key, []) + prompt for one, prompt in zip(conversations, prompts, strict=True)]
        lengths = (self._held.sum(1) + self._prefix_tokens).tolist()
        room = [
            max(min(one.reply_tokens, one.room - len(prompt), self._context - length - len(ids)), 0)
            for one, prompt, length, ids in zip(conversations, prompts, lengths, fed, strict=True)
        ]
        if not any(room):
            return [Reply("", prompt_ids=prompt, truncated=True) for prompt in prompts]
        # a row without room gets only one token, so that no position exceeds the model's context
        fed = [ids if space else ids[:1] for ids, space in zip(fed, room, strict=True)]
        logits = self._begun(fed) if first else self._forward(*self._padded(fed))
        tokens, logprobs = self._decode(logits, room, conversations)
        return [
            self._reply(one, prompt, ids, values)
            for one, prompt, ids, values in zip(conversations, prompts, tokens, logprobs, strict=True)
        ]

    def _begun(self, fed: list[list[int]]) -> torch.Tensor:
        """Feed the first prompts, and their common prefix only once: tasks with the same tools share a prefix."""
        place = {prompt: row for row, prompt in enumerate(dict.fromkeys(map(tuple, fed)))}
        prompts = [list(prompt) for prompt in place]
        apart = (at for at, (a, b) in enumerate(zip(min(prompts), max(prompts), strict=False)) if a != b)
        shortest = min(map(len, prompts))
        common = min(next(apart, shortest), shortest - 1)  # each row needs a separate last token
        if len(prompts) > 1 and common >= SHARED:
            self._held = self._held[:1]
            self._forward(*self._padded([prompts[0][:common]]))
            if self._attends:
                self._prefix = [(layer.keys, layer.values) for layer in self._cache.layers]
                self._prefix_tokens = common
                self._cache = Cache(layer_class_to_replicate=GrowingLayer)
                self._held = self._held.new_zeros(len(prompts), 0)
            else:
                self._repeat(torch.zeros(len(prompts), dtype=torch.int64))
            prompts = [prompt[common:] for prompt in prompts]
        self._held = self._held[: len(prompts)]
        logits = self._forward(*self._padded(prompts))
        rows = torch.tensor([place[tuple(ids)] for ids in fed])
        if len(prompts) < len(fed):
            self._repeat(rows)
        return logits[rows.to(logits.device)]

    def _repeat(self, rows: torch.Tensor) -> None:
        """Replace the cache's rows by these rows, each as often as it is named."""
        self._held = self._held[rows]
        for layer in self._cache.layers:
            layer.select(rows.to(self.model.device))

    def _keep(self, keys: list[int]) -> None:
        """Keep only these rows of the cache, and close their holes: tokens move to the right, in order."""
        if keys == self._rows and bool(self._held.all()):
            return
        position = {key: row for row, key in enumerate(self._rows)}
        rows = torch.tensor([position[key] for key in keys])
        held = self._held[rows]
        columns = torch.sort(held.to(torch.int8), dim=1, stable=True).indices
        width = int(held.sum(1).max()) if held.numel() else 0
        columns = columns[:, columns.shape[1] - width :]
        self._held = held.gather(1, columns)
        self._rows = list(keys)
        device = self.model.device
        rows, columns = rows.to(device), columns.to(device)
        for layer in self._cache.layers:
            layer.select(rows, columns)

    def _padded(self, fed: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and their mask, both rows × the longest, tokens to the right."""
        rows = [torch.tensor(ids, dtype=torch.int64) for ids in fed]
        tokens = pad_sequence(rows, batch_first=True, padding_value=self._pad, padding_side="left")
        starts = tokens.shape[1] - torch.tensor([len(ids) for ids in fed])
        return tokens, torch.arange(tokens.shape[1]) >= starts[:, None]

    def _forward(self, tokens: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Feed the tokens of ``rows`` or of all rows; float32 logits of the last column, rows × vocabulary."""
        before = self._held.sum(1, keepdim=True) + self._prefix_tokens
        positions = (before + mask.cumsum(1) - 1).clamp(min=0)
        self._held = held = torch.cat([self._held, mask], dim=1)
        device = self.model.device
        if rows is not None:
            tokens, positions, held = tokens[rows], positions[rows], held[rows]
        for layer in self._cache.layers:
            layer.active = None if rows is None else rows.to(device)
        with attending(self._prefix):
            output = self.model(
                input_ids=tokens.to(device),
                attention_mask=held.to(device),
                position_ids=positions.to(device),
                past_key_values=self._cache,
                use_cache=True,
                # as an index: a slice leaves strides by which torch copies frozen weights for each row
                logits_to_keep=torch.tensor([-1], device=device),
            )
        return output.logits[:, -1].float()

    def _decode(
        self, logits: torch.Tensor, room: list[int], conversations: Sequence[Conversation]
    ) -> tuple[list[list[int]], list[list[float]]]:
        left = torch.tensor(room)
        alive = left > 0
        # the random numbers of a reply do not depend on other conversations in the batch
        draws = [
            np.random.Generator(np.random.Philox(key=[one.seed % 2**64, self._turns.get(one.key, 0)]))
            for one in conversations
        ]
        columns: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        counts = torch.zeros_like(left)
        rows = torch.arange(len(room))  # those that the last pass read
        while True:
            step = len(columns)
            if step % CHUNK == 0:
                uniform = torch.from_numpy(np.stack([draw.random(CHUNK) for draw in draws]))
            token, value = torch.full_like(left, self._pad), torch.zeros(len(room))
            token[rows], value[rows] = self._sample(logits, uniform[rows, step % CHUNK])
            token = torch.where(alive, token, self._pad)
            columns.append(token)
            values.append(value)
            counts += alive
            left -= 1
            alive = alive & ~torch.isin(token, self._ends) & (left > 0)
            if not bool(alive.any()):
                break
            if self._narrows and int(alive.sum()) <= FEWER * len(rows):
                rows = alive.nonzero()[:, 0]
            logits = self._forward(token[:, None], alive[:, None], rows if len(rows) < len(room) else None)
        tokens = torch.stack(columns, 1).tolist()
        logprobs = torch.stack(values, 1).tolist()
        sizes = counts.tolist()
        return (
            [row[:size] for row, size in zip(tokens, sizes, strict=True)],
            [row[:size] for row, size in zip(logprobs, sizes, strict=True)],
        )

    def _sample(self, logits: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A token for each row and its log-probability, by inversion of the cumulative distribution."""
        logprobs = torch.log_softmax(logits / self._temperature if self._temperature else logits, dim=-1)
        if self._temperature == 0:
            token = logprobs.argmax(-1)
        else:
            cumulative = logprobs.double().exp().cumsum(-1)
            wanted = uniform.to(cumulative.device)[:, None] * cumulative[:, -1:]
            token = torch.searchsorted(cumulative, wanted, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
        return token.cpu(), logprobs.gather(1, token[:, None])[:, 0].cpu()

    def _reply(self, one: Conversation, prompt: list[int], ids: list[int], logprobs: list[float]) -> Reply:
        self._turns[one.key] = self._turns.get(one.key, 0) + 1
        self._last[one.key] = ids[-1:]
        ended = bool(ids) and ids[-1] in self._ends.tolist()
        return self._listener.renderer.read(prompt, ids, logprobs, ended, one.tools)


def open_transformers(
    path: Path, threads: int, dtype: str, temperature: float, template: Mapping[str, Any]
) -> TransformersPolicy:
    """The model directory ``path`` as a policy."""
    return TransformersPolicy(*load(path, threads, dtype), temperature, template)
