"""Check whether a model's chat template is fit for training agents, with the renderer and the mask that training uses.

A template may be unfit in silence: it rewrites earlier turns (verl#6719), it leaves the token that ends a reply to the next turn, so
that the agent never learns to stop (prime-rl PR 2644), or masks that it marks are empty (marin#7237).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from coevolve.core.diagnosis import ABSENT, BROKEN, WORKS, Diagnosis
from coevolve.core.errors import CoevolveError
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer, check_template
from coevolve.policies.pretrained import resolve
from coevolve.rollout import Limits
from coevolve.stages.train.reference_tokens import Tokens, Tools, offered, replayed, tokens

SAMPLE = 8  # references to choose the longest episode from
AROUND = 40  # characters of a text that a line quotes
THOUGHT = "<think>\nfirst I look\n</think>\n\n"
ANOTHER_TURN = [{"role": "user", "content": "and now?"}, {"role": "assistant", "content": "nothing more"}]
EARLIER = "the template changes earlier turns when later ones follow"


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model directory or of a model in the local cache. Downloads nothing."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(resolve(Path(model))), local_files_only=True)
    except CoevolveError:
        raise
    except Exception as error:  # damaged files raise many errors, and tokenizers a bare Exception
        wrong = f"no tokenizer in {model}" if Path(model).is_dir() else "no such directory, and not in the local cache"
        raise CoevolveError(
            f"--template {model}: {wrong} ({type(error).__name__}); expected a model directory, or a name that "
            "`hf download` has fetched"
        ) from None
    check_template(tokenizer, f"--template {model}")
    return tokenizer


def diagnose(
    tokenizer: Any, variables: Mapping[str, Any], environment: Environment, split: str, limits: Limits
) -> Iterator[Diagnosis]:
    """The findings about the template, on the episode of a reference in ``environment``."""
    renderer = Renderer(tokenizer, variables)
    tasks = environment.tasks(split)[:SAMPLE]
    episodes = replayed(environment, tasks, limits)
    if not episodes:
        raise CoevolveError(
            f"no reference of split {split} of {environment.name} solves its task, so there is no episode"
        )
    longest = max(episodes.values(), key=lambda episode: len(episode.messages))
    tools = offered(environment, [task for task in tasks if task.task_id == longest.task_id])[longest.task_id]
    episode = replace(longest, messages=[*_closed(longest.messages), *ANOTHER_TURN])
    yield _tools(renderer, tools, episode)
    yield _prefix(tokenizer, renderer, tools, episode, "prefix")
    thinking = [
        {**message, "content": THOUGHT + message["content"]} if message["role"] == "assistant" else message
        for message in episode.messages
    ]
    yield _prefix(tokenizer, renderer, tools, replace(episode, messages=thinking), "thoughts")
    ids = tokens(renderer, tools, episode)
    yield _stop(tokenizer, variables, ids, episode)
    yield _mask(tokenizer, ids, episode)


def _closed(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """``messages`` up to the last answer, after which a user may speak."""
    return list(messages) if messages[-1]["role"] != "assistant" else list(messages[:-1])


def _tools(renderer: Renderer, tools: Tools, episode: Trajectory) -> Diagnosis:
    first = episode.messages[:1]
    whole, without = len(renderer.first(first, tools)), len(renderer.first(first, []))
    text = f"{len(tools)} tools take {whole - without} of the {whole} tokens of a first prompt"
    return Diagnosis("tools", WORKS, text if whole > without else f"{text}: the template does not show them")


def _prefix(tokenizer: Any, renderer: Renderer, tools: Tools, episode: Trajectory, name: str) -> Diagnosis:
    """Compare each prompt of an episode, turn by turn as in rollouts, with the template's rendering of all its messages."""
    replies = [index for index, message in enumerate(episode.messages) if message["role"] == "assistant"]
    with_thoughts = " with the agent's thoughts" if name == "thoughts" else ""
    for before, reply in pairwise(replies):
        ids = tokens(renderer, tools, replace(episode, messages=episode.messages[: before + 1]))
        observed = renderer.later(episode.messages[before + 1 : reply])
        here = tokenizer.decode([*ids.prompt, *ids.completion, *observed])
        whole = tokenizer.decode(renderer.first(episode.messages[:reply], tools))
        if here != whole:
            place = next(
                (place for place, pair in enumerate(zip(here, whole, strict=False)) if pair[0] != pair[1]),
                min(len(here), len(whole)),
            )
            text = f"{EARLIER}{with_thoughts}: {whole[place : place + AROUND]!r} instead of {here[place : place + AROUND]!r}"
            remedy = (
                "our rollouts and training keep earlier turns; give servers and other trainers a template that does"
            )
            return Diagnosis(name, BROKEN, text, remedy)
    return Diagnosis(name, WORKS, f"all {len(replies)} prompts{with_thoughts} begin with the turns before them")


def _stop(tokenizer: Any, variables: Mapping[str, Any], ids: Tokens, episode: Trajectory) -> Diagnosis:
    """Check that each trained reply ends with the end token, and that the template ends replies with it as well."""
    end = tokenizer.eos_token
    last = [
        token
        for token, here, following in zip(ids.completion, ids.mask, [*ids.mask[1:], 0], strict=True)
        if here and not following
    ]
    if any(token != tokenizer.eos_token_id for token in last):
        return Diagnosis("stop", BROKEN, f"{end} is outside of the trained span: it is not a token", "use a chat model")

    def after_reply(messages: Sequence[dict[str, Any]]) -> str:
        whole: str = tokenizer.apply_chat_template(messages, tokenize=False, **variables)
        return whole[whole.rindex(spoken) + len(spoken) :].lstrip() if spoken in whole else ""

    spoken = episode.messages[-1]["content"]
    alone = after_reply(episode.messages)
    # if nothing follows, the next turn may begin with the token that ends this one
    written = alone or after_reply([*episode.messages, episode.messages[0]])
    if not written.startswith(end):
        text = f"after a reply the template writes {written[:AROUND]!r}, but the tokenizer's end token is {end}"
        return Diagnosis("stop", BROKEN, text, "set eos_token in tokenizer_config.json to the token that ends a reply")
    if alone:
        return Diagnosis("stop", WORKS, f"{end} ends each of the {len(last)} replies, inside the trained span")
    text = (
        f"{end} opens the next turn: our training adds it to the reply, but a trainer that masks by messages does not"
    )
    return Diagnosis(
        "stop", ABSENT, text, "for other trainers move it to the end of the assistant's turn in the template"
    )


def _mask(tokenizer: Any, ids: Tokens, episode: Trajectory) -> Diagnosis:
    """Check that the mask covers the agent's words, and nothing else."""
    trained = sum(ids.mask)
    masked = tokenizer.decode([token for token, own in zip(ids.completion, ids.mask, strict=True) if own])
    said = "".join(
        message["content"] + tokenizer.eos_token for message in episode.messages if message["role"] == "assistant"
    )
    text = f"{trained} of {len(ids)} tokens of an episode are the agent's"
    if not trained or masked != said:
        return Diagnosis("mask", BROKEN, f"{text}, and they are not its words: {masked[:AROUND]!r}", "use a chat model")
    template = str(tokenizer.chat_template)
    marked = "generation %}" in template or "generation -%}" in template
    rest = "" if marked else "; the template has no {% generation %}: a trainer that masks by it trains on nothing"
    return Diagnosis("mask", WORKS, text + rest)
