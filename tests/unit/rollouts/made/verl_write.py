"""Write verl/STEP.jsonl by verl's own function. `python -m tests.unit.rollouts.made.verl_write verl-0.9.1-py3-none-any.whl`

verl needs GPUs to train, so its trainer does not run here. Its static function `_write_generations` is taken from the wheel
and called with rollouts that this script makes: prompts by Qwen3's chat template, decoded without special tokens as verl
decodes them.
"""

import ast
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from coevolve.core.io import read_tasks
from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make
from tests.unit.policies.qwen import tokenizer

HERE = Path(__file__).parent
SOURCE, NAME = "verl/trainer/ppo/ray_trainer.py", "_write_generations"


def writer(wheel: str) -> Any:
    tree = ast.parse(zipfile.ZipFile(wheel).read(SOURCE))
    [function] = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == NAME]
    function.decorator_list = []
    names: dict[str, Any] = {"os": __import__("os"), "json": json}
    exec(compile(ast.Module([function], []), SOURCE, "exec"), names)
    return names[NAME]


def played(words: Any, task: Task, calls: list[ToolCall]) -> tuple[str, str, float]:
    """The prompt, the response and the score of an agent that makes ``calls``."""
    session = make("miniworld").open()
    tools = session.reset(task).tools or []
    used = [tool for tool in tools if tool["function"]["name"] in task.tools]
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]

    def rendered(**options: Any) -> str:
        return str(words.apply_chat_template(messages, tools=used, tokenize=False, **options))

    prompt = rendered(add_generation_prompt=True)
    for call in calls:
        function = {"name": call.name, "arguments": call.arguments}
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "content": session.step(call).content})
    messages.append({"role": "assistant", "content": "done"})
    whole = rendered()
    ids = [words.encode(text, add_special_tokens=False) for text in (prompt, whole[len(prompt) :])]
    texts = [words.decode(part, skip_special_tokens=True) for part in ids]
    return texts[0], texts[1], float(session.score().reward)


def main(wheel: str) -> None:
    write, words = writer(wheel), tokenizer("qwen3")
    tasks = read_tasks(HERE / "tasks.jsonl")[:3]
    for step in (1, 2):
        rows = [
            (task, played(words, task, task.reference[0][sample if step == 1 else 1 :]))
            for task in tasks
            for sample in (0, 1)
        ]
        inputs, outputs, scores = zip(*(row for _, row in rows), strict=True)
        write(list(inputs), list(outputs), [None] * len(rows), list(scores), {}, str(HERE / "verl"), step)


if __name__ == "__main__":
    main(sys.argv[1])
