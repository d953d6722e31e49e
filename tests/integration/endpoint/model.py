"""The tiny policy, trained on for half a minute, so that it answers explorers and synthesizers of miniworld by their contracts.

So that tests talk to a real server with a real model: it reflects with fixed words, plans events and fills the wallet
when it explores, and puts an event that it planned into words.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coevolve.core.task import ToolCall
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.registry import make
from coevolve.policies.agent_prompt import RESPONSE_TEMPLATE, render_call
from coevolve.policies.transformers_policy import load
from coevolve.prompts.prompt import prompt, quoted, quoted_call
from coevolve.stages.base.recipe import example, supervise
from coevolve.stages.base.tokenizer import build
from coevolve.stages.signals.kinds import KINDS
from tests import ROOT

TITLES = ("yoga", "exam", "dinner", "concert", "workshop", "meeting", "hike", "picnic")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
REFLECTION = {
    "what_failed": "the agent left a call out",
    "where": "at the end",
    "why": "it never plans events",
    "try": ["plan an event with add_event", "fill the wallet with top_up"],
}
STEPS, BATCH = 160, 8
POLICY = ROOT / "policies" / "base"


def _instruction(rng: random.Random, tasks: list[Any]) -> str:
    return quoted(rng.choice(tasks).turns[0])


def _conversations(count: int) -> Iterator[list[dict[str, str]]]:
    """Prompts as they are really asked, with the replies that the model shall give."""
    world = make("miniworld")
    tasks = list(world.tasks("seed"))
    tools = ", ".join(tool["function"]["name"] for tool in world.tools())
    rng = random.Random(7)
    for number in range(count):
        title, day, amount = rng.choice(TITLES), rng.choice(DAYS), rng.choice((10, 20, 30, 40))
        plan = ToolCall("add_event", {"title": title, "day": day})
        fill = ToolCall("top_up", {"amount": amount})
        event = json.dumps({"id": f"e{rng.randrange(10, 99)}"}, separators=(",", ":"))
        kind = rng.choice(list(KINDS.values()))
        if number % 3 == 0:
            calls = rng.choice(tasks).reference[0]
            trajectory = "\n".join(f'{quoted_call(call.name, call.arguments)} -> "[]"' for call in calls)
            text = prompt("reflect").fill(
                kind=kind.name, meaning=kind.meaning, instruction=_instruction(rng, tasks),
                trajectory=trajectory, score="0", tools=tools,
            )  # fmt: skip
            yield [{"role": "user", "content": text}, {"role": "assistant", "content": json.dumps(REFLECTION)}]
        elif number % 3 == 1:
            told = {"instruction": _instruction(rng, tasks), "calls": "8"}
            if rng.random() < 0.3:
                names = rng.sample([tool["function"]["name"] for tool in world.tools()], 3)
                text = prompt("explore_tools").fill(ideas=f"- use {', '.join(names)}", **told)
            else:
                why = rng.choice([quoted(f"{REFLECTION['what_failed']} {REFLECTION['why']}"), kind.meaning])
                ideas = "\n".join(f"- {quoted(idea)}" for idea in REFLECTION["try"])
                text = prompt("explore").fill(why=why, ideas=ideas, **told)
            yield [
                {"role": "user", "content": text},
                {"role": "assistant", "content": render_call(plan)},
                {"role": "tool", "content": event},
                {"role": "assistant", "content": render_call(fill)},
                {"role": "tool", "content": rng.choice(["ok", "wallet is locked; unlock it first"])},
                {"role": "assistant", "content": "done"},
            ]
        else:
            chain = [(plan, event), (fill, "ok")][: rng.randint(1, 2)]
            text = prompt("synthesize").fill(
                chain="\n".join(
                    f"{row}. {quoted_call(call.name, call.arguments)} -> {quoted(seen)}"
                    for row, (call, seen) in enumerate(chain, 1)
                ),
                why=quoted(REFLECTION["why"]),
                ending="",
                example="\n".join(_instruction(rng, tasks) for _ in range(3)),
            )
            turn = {"instruction": f"please plan a {title} for {day}", "calls": [1]}
            written = {"tasks": [{"turns": [turn], "asks": [1]}]}
            yield [{"role": "user", "content": text}, {"role": "assistant", "content": json.dumps(written)}]


def make_model(folder: Path) -> None:
    """The tiny policy, which can copy, with words for the prompts, trained on; a transformers model directory."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    conversations = list(_conversations(STEPS * BATCH))
    spoken = sorted({word for one in conversations for message in one for word in message["content"].split()})
    names, words = Miniworld.lexicon()
    spoken = [
        word for word in spoken if not any(value in word for value in (*TITLES, *DAYS))
    ]  # to be copied as they are
    old, known = load(POLICY)
    tokenizer = build(names, [*words, *spoken])
    tokenizer.response_template = RESPONSE_TEMPLATE
    config = LlamaConfig(**{**old.config.to_dict(), "vocab_size": len(tokenizer), "max_position_embeddings": 2048})
    model = LlamaForCausalLM(config)
    weights = {
        name: value
        for name, value in old.state_dict().items()
        if "embed_tokens" not in name and name != "lm_head.weight"
    }
    model.load_state_dict(weights, strict=False)
    rows = [
        (row, known.get_vocab()[piece]) for piece, row in tokenizer.get_vocab().items() if piece in known.get_vocab()
    ]
    with torch.no_grad():
        model.model.embed_tokens.weight[[row for row, _ in rows]] = old.model.embed_tokens.weight[
            [row for _, row in rows]
        ]
    supervise(model, tokenizer, [example(tokenizer, one) for one in conversations], BATCH, 0.002, "a model for tests")
    model.generation_config.do_sample = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    import sys

    make_model(Path(sys.argv[1]))
