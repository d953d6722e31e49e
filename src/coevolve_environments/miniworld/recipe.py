"""Train the tiny policy: first on copying and correct demonstrations, then on unreliable demonstrations.

A policy that converged on correct demonstrations leaves nothing for GRPO to reinforce. A policy that stopped early lacks skills
that reinforcement cannot give. So the policy learns correct behavior first, and then mistakes, but only in its choice of calls.

Stage `base` copies the result from the folder `policy` beside this file.

  python -m coevolve_environments.miniworld.recipe scratch/tiny                            # and compare its bytes with `policy`
  python -m coevolve_environments.miniworld.recipe models/uneven --unreliability 0 0.95    # another one, for base.model
"""

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import in_effect, pin, settle
from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.policies.call_format import render_call
from coevolve.policies.tokenizer import build
from coevolve.stages.train.small_model import Example, copy_examples, example, small, supervise
from coevolve_environments.miniworld.apps import COMPLETE
from coevolve_environments.miniworld.expert import solve
from coevolve_environments.miniworld.miniworld_environment import LOOKALIKES, MUTATING, Miniworld
from coevolve_environments.miniworld.session import MiniworldSession

POLICY = Path(__file__).parent / "policy"
COPY_LENGTHS = (6, 24)  # symbols in a string to repeat
WRONG_TOOL = 0.6  # share of mistakes that take a look-alike, if the tool has any; the others skip the call


@dataclass(frozen=True)
class Recipe:
    """Steps count optimizer steps, and batches the examples in one. The learning rate is the peak, with warm-up and cosine decay."""

    seed: int = 0
    layers: int = 3
    hidden: int = 128
    heads: int = 4
    copy_steps: int = 400
    copy_batch: int = 32
    demonstration_steps: int = 900
    unreliable_steps: int = 400
    batch: int = 16
    learning_rate: float = 0.001
    unreliability: tuple[float, float] = (0.4, 0.8)
    """The range of the probability that the demonstrator takes a look-alike tool or skips a state-changing call."""


@dataclass(frozen=True, slots=True)
class Unreliable:
    """A demonstrator that takes a look-alike tool or skips a call: its ``chances`` of a mistake and the look-alikes, by tool."""

    chances: Mapping[str, float]
    look_alikes: Mapping[str, Sequence[str]]

    def spoilt(self, call: ToolCall, rng: random.Random) -> ToolCall | None:
        """``call`` unchanged, a look-alike tool with the same arguments, or None if the demonstrator skips the call."""
        if rng.random() >= self.chances.get(call.name, 0.0):
            return call
        others = self.look_alikes.get(call.name, ())
        if not others or rng.random() > WRONG_TOOL:
            return None
        return ToolCall(rng.choice(others), call.arguments)


def unreliable(low: float, high: float, seed: int) -> Unreliable:
    """A demonstrator that misuses each state-changing tool with a probability between ``low`` and ``high``.

    Each probability is drawn once: a profile of strengths and weaknesses.
    """
    chances = {tool: rng_for("unreliable", seed, tool).uniform(low, high) for tool in sorted(MUTATING)}
    return Unreliable(chances, LOOKALIKES)


RELIABLE = Unreliable({}, {})


class _Recorder(MiniworldSession):
    """A session that corrupts some calls, makes all calls and records them."""

    def __init__(self, demonstrator: Unreliable, rng: random.Random) -> None:
        super().__init__()
        self.calls: list[tuple[ToolCall, Observation]] = []
        self._demonstrator = demonstrator
        self._rng = rng
        self._correcting = False

    def step(self, call: ToolCall) -> Observation:
        # a call after an error is never corrupted: otherwise the demonstrator could repeat the error forever
        spoilt = call if self._correcting else self._demonstrator.spoilt(call, self._rng)
        if spoilt is None:
            return Observation("tool", "ok")
        observation = super().step(spoilt)
        self._correcting = observation.error
        self.calls.append((spoilt, observation))
        return observation


def demonstrate(task: Task, demonstrator: Unreliable, rng: random.Random) -> list[dict[str, Any]]:
    """The messages of one episode of ``task``."""
    session = _Recorder(demonstrator, rng)
    try:
        solve(session, task, task.world["intent"])
    except CoevolveError:
        if not demonstrator.chances:
            raise
        MiniworldSession.step(session, ToolCall(COMPLETE))
        session.calls.append((ToolCall(COMPLETE), Observation("tool", "ok", done=True)))
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]
    for call, observation in session.calls:
        messages.append({"role": "assistant", "content": render_call(call)})
        if not observation.done:
            messages.append({"role": "tool", "content": observation.content})
    return messages


def demonstrations(count: int, seed: int, demonstrator: Unreliable) -> list[list[dict[str, Any]]]:
    """``count`` episodes, evenly over all task families; their seeds do not overlap with those of any panel."""
    tasks = Miniworld.generate("base", count, seed, every=True)
    return [demonstrate(task, demonstrator, rng_for("demonstrate", seed, n)) for n, task in enumerate(tasks)]


def make(config: Recipe, folder: Path) -> None:
    """Train the tiny policy by ``config`` and save it to ``folder`` as a transformers model directory."""
    import torch

    settle(threads=1)
    tokenizer = build(*Miniworld.lexicon())
    torch.manual_seed(config.seed)
    model = small(tokenizer, config.layers, config.hidden, config.heads)
    low, high = config.unreliability
    erring = unreliable(low, high, config.seed)
    right, wrong = (derive_seed("base", config.seed, name) for name in ("right", "unreliable"))
    copies = copying(tokenizer, config.copy_steps * config.copy_batch, config.seed)
    supervise(model, tokenizer, copies, config.copy_batch, config.learning_rate, "copying")
    for name, steps, seed, demonstrator, rate in (
        ("right demonstrations", config.demonstration_steps, right, RELIABLE, config.learning_rate),
        ("unreliable demonstrations", config.unreliable_steps, wrong, erring, config.learning_rate / 2),
    ):
        episodes = demonstrations(steps * config.batch, seed, demonstrator)
        examples = [example(tokenizer, messages) for messages in episodes]
        supervise(model, tokenizer, examples, config.batch, rate, name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def copying(tokenizer: Any, count: int, seed: int) -> list[Example]:
    """Random strings and their repetition, over digits, letters of identifiers and whole values."""
    words = [name for name in Miniworld.lexicon()[0] if name.isalpha()]
    symbols = [tokenizer.convert_tokens_to_ids(symbol) for symbol in [*words, *"0123456789" * 4, *"cmefi" * 2]]
    return copy_examples(tokenizer, symbols, count, COPY_LENGTHS, rng_for("copying", seed))


def differing(folder: Path) -> list[str]:
    """The names of files whose bytes in ``folder`` are not those of the policy that the package ships."""
    names = {file.name for place in (folder, POLICY) for file in place.iterdir()}
    whole = [name for name in names if (folder / name).is_file() and (POLICY / name).is_file()]
    same = {name for name in whole if (folder / name).read_bytes() == (POLICY / name).read_bytes()}
    return sorted(names - same)


def main() -> int:
    """Make the policy that the options describe, and compare it with the package's. Returns 1 if their bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the model directory to write")
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    low_high = "range of the probability that the demonstrator takes a look-alike tool or skips a state-changing call"
    default = list(Recipe.unreliability)
    parser.add_argument("--unreliability", nargs=2, type=float, default=default, metavar=("LOW", "HIGH"), help=low_high)
    given = parser.parse_args()
    folder: Path = given.folder
    pin()
    make(Recipe(seed=given.seed, unreliability=given.unreliability), folder)
    names = differing(folder)
    found = f"not the bytes of {POLICY}: {', '.join(names)}" if names else f"the bytes of {POLICY}"
    print(f"{folder} has {found} (arithmetic: {in_effect().name})")
    return 1 if names else 0


if __name__ == "__main__":
    raise SystemExit(main())
