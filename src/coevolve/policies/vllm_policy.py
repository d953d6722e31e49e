"""A policy that generates by vLLM. Every turn sends the whole conversation as token ids.

vLLM keeps the prefixes of running conversations in its cache, so a turn costs only its new tokens. Training uses the engine or the
server whose weights TRL updates. Evaluation opens a separate engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve.core.concurrency import in_order
from coevolve.core.seeding import derive_seed
from coevolve.policies.agent_prompt import Listener, Renderer, check_room, check_template
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Conversation, Reply
from coevolve.policies.vllm_engine import engine_arguments, require_vllm

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

    name = "vllm"

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

    tokenizer = AutoTokenizer.from_pretrained(source)
    check_template(tokenizer, str(path))
    llm = LLM(model=source, max_model_len=config.episode_tokens, logprobs_mode="processed_logprobs", **arguments)
    ends = end_tokens(GenerationConfig.from_pretrained(source), tokenizer)
    return VllmPolicy(engine(llm, temperature), tokenizer, ends, config.episode_tokens, config.template)
