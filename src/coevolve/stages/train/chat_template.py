"""Check whether a model's chat template is fit for training agents, with the renderer and the mask that training uses.

A template may be unfit in silence: it rewrites earlier turns (verl#6719), it leaves the token that ends a reply to the next turn, so
that the agent never learns to stop (prime-rl PR 2644), or masks that it marks are empty (marin#7237).
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer, TemplateRefusal, agreement, check_template
from coevolve.policies.pretrained import resolve
from coevolve.policies.tokenizer import build
from coevolve.rollout import Limits
from coevolve.stages.train.reference_tokens import Tokens, Tools, offered, replayed, tokens

WORKS, ABSENT, BROKEN = "ok", "-", "BROKEN"
SAMPLE = 8  # references to choose the longest episode from
AROUND = 40  # characters of a text that a line quotes
THOUGHT = "<think>\nfirst I look\n</think>\n\n"
ANOTHER_TURN = [{"role": "user", "content": "and now?"}, {"role": "assistant", "content": "nothing more"}]
EARLIER = "the template changes earlier turns when later ones follow"
# the special tokens of common families, as they stand in a template
MARKS = re.compile(r"<\|[^<>|\s]+\|?>|<[a-z_]+\|>|<｜[^｜]+｜>|\[/?[A-Z_]+\]|</?s>|<(?:start|end)_of_turn>|<[be]os>")
REFUSED = (
    "set a variable of the template in policy.template, or write a chat_template.jinja that takes such a conversation"
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A line of ``coevolve doctor``: ``state`` is WORKS, ABSENT or BROKEN; ``remedy`` is what to type."""

    name: str
    state: str
    text: str
    remedy: str = ""


def judged(name: str, works: object, text: str, remedy: str, wanted: object = True) -> Diagnosis:
    """The line of something that works or does not. If it does not, it is BROKEN where ``wanted``, and ABSENT elsewhere."""
    return Diagnosis(name, WORKS, text) if works else Diagnosis(name, BROKEN if wanted else ABSENT, text, remedy)


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model directory, of a model in the local cache, or of a .jinja file. Downloads nothing."""
    from transformers import AutoTokenizer

    try:
        if model.endswith(".jinja"):
            tokenizer = of_marks(Path(model).read_text(encoding="utf-8"))
        else:
            tokenizer = AutoTokenizer.from_pretrained(
                str(resolve(Path(model))), local_files_only=True, trust_remote_code=False
            )
    except CoevolveError:
        raise
    except Exception as error:  # damaged files raise many errors, and tokenizers a bare Exception
        wrong = f"no tokenizer in {model}" if Path(model).is_dir() else "no such directory, and not in the local cache"
        raise CoevolveError(
            f"--template {model}: {wrong} ({type(error).__name__}); expected a model directory, a .jinja file, or a name that "
            "`hf download` has fetched"
        ) from None
    check_template(tokenizer, f"--template {model}")
    return tokenizer


def of_marks(template: str) -> Any:
    """A tokenizer of bytes and of the special tokens in ``template``, whose end token is the first of them after a reply."""
    tokenizer = build([], [])
    marks: list[Any] = sorted({*MARKS.findall(template)})
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": marks})
    tokenizer.chat_template, tokenizer.model_max_length = template, 10**9
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "stand-in"}]
    with suppress(Exception):  # the template refuses this conversation; a finding will say so
        text = tokenizer.apply_chat_template([*said, said[0]], tokenize=False)
        tokenizer.eos_token = MARKS.findall(text.rpartition("stand-in")[2])[0]
    return tokenizer


def diagnose(
    tokenizer: Any, variables: Mapping[str, Any], environment: Environment, split: str, limits: Limits
) -> Iterator[Diagnosis]:
    """The findings about the template, on the episode of a reference in ``environment``."""
    tasks = environment.tasks(split)[:SAMPLE]
    episodes = replayed(environment, tasks, limits)
    if not episodes:
        raise CoevolveError(
            f"no reference of split {split} of {environment.name} solves its task, so there is no episode"
        )
    longest = max(episodes.values(), key=lambda episode: len(episode.messages))
    tools = offered(environment, [task for task in tasks if task.task_id == longest.task_id])[longest.task_id]
    last = -1 if longest.messages[-1]["role"] == "assistant" else None  # after an answer, a user may speak
    episode = replace(longest, messages=[*longest.messages[:last], *ANOTHER_TURN])
    try:
        yield from _findings(tokenizer, variables, tools, episode)
    except TemplateRefusal as error:
        yield Diagnosis("template", BROKEN, str(error), REFUSED)


def _findings(tokenizer: Any, variables: Mapping[str, Any], tools: Tools, episode: Trajectory) -> Iterator[Diagnosis]:
    renderer = Renderer(tokenizer, variables)
    yield _tools(renderer, tools, episode)
    yield _calls(renderer, tools, episode)
    if "strftime_now" in str(tokenizer.chat_template):
        fixed = "date_string" in variables  # the renderer then writes that date
        text = (
            "policy.template fixes the date"
            if fixed
            else "the template writes today's date: results change from day to day"
        )
        remedy = "set policy.template to {date_string: 26 Jul 2024}, or to another day"
        yield judged("date", fixed, text, remedy, wanted=False)
    yield _prefix(tokenizer, renderer, tools, episode, "prefix")
    thinking = [
        {**message, "content": THOUGHT + message["content"]} if message["role"] == "assistant" else message
        for message in episode.messages
    ]
    if "first I look" in renderer.spoken(thinking[1]["content"]):
        yield _prefix(tokenizer, renderer, tools, replace(episode, messages=thinking), "thoughts")
    else:
        yield Diagnosis("thoughts", WORKS, "the template writes no thoughts, or its prompt for a reply forbids them")
    ids = tokens(renderer, tools, episode)
    yield _stop(tokenizer, renderer, ids, episode)
    yield _mask(tokenizer, renderer, ids, episode)


def _tools(renderer: Renderer, tools: Tools, episode: Trajectory) -> Diagnosis:
    first = episode.messages[:1]
    whole, without = len(renderer.first(first, tools)), len(renderer.first(first, []))
    text = f"{len(tools)} tools take {whole - without} of the {whole} tokens of a first prompt"
    return Diagnosis("tools", WORKS, text if whole > without else f"{text}: the template does not show them")


def _calls(renderer: Renderer, tools: Tools, episode: Trajectory) -> Diagnosis:
    """Check that the episode's calls are read back equal as the template writes them."""
    for call in (ToolCall(call.name, call.arguments) for call in episode.calls):
        text, prompt = renderer.written(call)
        _, _, found, error = renderer.said(text, prompt, tools)
        if found != [call]:
            told = f"what the template writes for a call is not read back: {text[:AROUND]!r} ({error or found or 'no call'})"
            told = told if call.name in text else "the template writes no calls"
            return Diagnosis("calls", BROKEN, told, "use a model of a family in docs/chat-templates.md")
    return Diagnosis("calls", WORKS, f"each of the {len(episode.calls)} calls is read back as the template writes it")


def _prefix(tokenizer: Any, renderer: Renderer, tools: Tools, episode: Trajectory, name: str) -> Diagnosis:
    """Compare each prompt of an episode, turn by turn as in rollouts, with the template's rendering of all its messages."""
    replies = [index for index, message in enumerate(episode.messages) if message["role"] == "assistant"]
    with_thoughts = " with the agent's thoughts" if name == "thoughts" else ""
    for before, reply in pairwise(replies):
        ids = tokens(renderer, tools, replace(episode, messages=episode.messages[: before + 1]))
        observed = renderer.later(episode.messages[before + 1 : reply], episode.messages[before]["content"])
        here = tokenizer.decode([*ids.prompt, *ids.completion, *observed])
        whole = tokenizer.decode(renderer.first(episode.messages[:reply], tools))
        if here == whole:
            continue
        place = agreement(here, whole)
        there, ours = whole[place : place + AROUND], here[place : place + AROUND]
        text = f"{EARLIER}{with_thoughts}: {there!r} instead of {ours!r}"
        remedy = "our rollouts and training keep earlier turns; give servers and other trainers a template that does"
        # within one turn of the user, an agent that is served would miss its own thoughts
        return Diagnosis(name, ABSENT if with_thoughts and reply == replies[-1] else BROKEN, text, remedy)
    return Diagnosis(name, WORKS, f"all {len(replies)} prompts{with_thoughts} begin with the turns before them")


def _stop(tokenizer: Any, renderer: Renderer, ids: Tokens, episode: Trajectory) -> Diagnosis:
    """Check that each trained reply ends with an end token, and that the template ends replies with it as well."""
    last = [
        token
        for token, here, following in zip(ids.completion, ids.mask, [*ids.mask[1:], 0], strict=True)
        if here and not following
    ]
    end, known = tokenizer.decode(last[-1:]), _ends(tokenizer)
    # if nothing follows, the next turn may begin with the token that ends this one
    alone, followed = (
        renderer.text([*episode.messages, *more]).rpartition(ANOTHER_TURN[-1]["content"])[2].lstrip()
        for more in ([], episode.messages[:1])
    )
    written = alone or followed
    odd = [token for token in last if token not in known]
    if odd or not written.startswith(end):
        text = f"after a reply the template writes {written[:AROUND]!r}, but the tokenizer's end token is {end}"
        text = f"{tokenizer.decode(odd[:1])} ends a reply, and is not an end token of the model" if odd else text
        remedy = "set eos_token in tokenizer_config.json to the token that ends a reply"
        remedy = "add it to eos_token_id in generation_config.json" if odd else remedy
        return Diagnosis("stop", BROKEN, text, remedy)
    if alone:
        return Diagnosis("stop", WORKS, f"{end} ends each of the {len(last)} replies, inside the trained span")
    text = f"{end} opens the next turn: our training adds it to the reply, a trainer that masks by messages does not"
    remedy = "for other trainers move it to the end of the assistant's turn in the template"
    return Diagnosis("stop", ABSENT, text, remedy)


def _ends(tokenizer: Any) -> Collection[int]:
    """The ids that end a reply: of the model's generation config, or for a template alone all its marks."""
    from transformers import GenerationConfig

    from coevolve.policies.transformers_policy import end_tokens

    model = tokenizer.name_or_path
    if not model:
        return set(tokenizer.added_tokens_decoder)
    with suppress(OSError):  # a model may have no such file
        return end_tokens(GenerationConfig.from_pretrained(model, local_files_only=True), tokenizer)
    return [tokenizer.eos_token_id]


def _mask(tokenizer: Any, renderer: Renderer, ids: Tokens, episode: Trajectory) -> Diagnosis:
    """Check that the mask covers the agent's words, and nothing else."""
    trained = sum(ids.mask)
    masked = tokenizer.decode([token for token, own in zip(ids.completion, ids.mask, strict=True) if own])
    said = "".join(renderer.spoken(one["content"]) for one in episode.messages if one["role"] == "assistant")
    text = f"{trained} of {len(ids)} tokens of an episode are the agent's"
    if not trained or masked != said:
        return Diagnosis("mask", BROKEN, f"{text}, and they are not its words: {masked[:AROUND]!r}", "use a chat model")
    template = str(tokenizer.chat_template)
    marked = "generation %}" in template or "generation -%}" in template
    rest = "" if marked else "; the template has no {% generation %}: a trainer that masks by it trains on nothing"
    return Diagnosis("mask", WORKS, text + rest)
