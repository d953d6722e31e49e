"""`coevolve grow` and `coevolve signals` on generated rollouts of miniworld: seconds, CPU seconds, peak memory.

`python benchmarks/grow.py [--command signals] [--rollouts 100000]`

Rollouts are references, whole or without a call, in the files of each trainer: 512 rollouts a step. A busy machine makes
seconds meaningless; CPU seconds of the command and its workers stand beside them.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make

STEP = 512  # rollouts a step, in groups of 8
GROUP = 8
Episode = tuple[Task, list[tuple[ToolCall, str]], float]


def episodes() -> Iterator[Episode]:
    """An endless row of episodes: a task's group after another."""
    world, rng = make("miniworld"), random.Random(0)
    tasks = list(world.tasks("seed"))
    played: dict[tuple[str, int], Episode] = {}
    session = world.open()
    while True:
        task = rng.choice(tasks)
        for _ in range(GROUP):
            left_out = rng.randrange(-len(task.calls), len(task.calls))
            key = task.task_id, max(left_out, -1)
            if key not in played:
                session.reset(task)
                calls = [call for row, call in enumerate(task.calls) if row != left_out]
                answers = [(call, session.step(call).content) for call in calls]
                played[key] = task, answers, float(session.score().reward)
            yield played[key]


def called(call: ToolCall) -> dict[str, Any]:
    return {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def trl(folder: Path, step: int, rows: list[Episode]) -> None:
    arguments = sorted({key for _, calls, _ in rows for call, _ in calls for key in call.arguments})
    table = [
        {
            "step": step,
            "prompt": [{"role": "user", "content": task.turns[0]}],
            "completion": [
                message
                for call, answer in calls
                for message in (
                    {"role": "assistant", "content": "", "tool_calls": [called(call)]},
                    {"role": "tool", "name": call.name, "content": answer},
                )
            ],
            "reward": score,
            "advantage": 0.0,
        }
        for task, calls, score in rows
    ]
    for row in table:  # Parquet's structs have the same keys everywhere
        for message in row["completion"]:
            for call in message.get("tool_calls", []):
                given = call["function"]["arguments"]
                call["function"]["arguments"] = {key: str(given[key]) if key in given else None for key in arguments}
    pq.write_table(pa.Table.from_pylist(table), folder / f"completions_{step:05d}.parquet")


def verl(folder: Path, step: int, rows: list[Episode]) -> None:
    with (folder / f"{step}.jsonl").open("w") as file:
        for task, calls, score in rows:
            texts = [
                f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments})}\n</tool_call>\nuser\n"
                f"<tool_response>\n{answer}\n</tool_response>\nassistant\n"
                for call, answer in calls
            ]
            prompt = f"system\n{'You have tools. ' * 100}\nuser\n{task.turns[0]}\nassistant\n"
            row = {"input": prompt, "output": "".join(texts), "gts": None, "score": score, "step": step}
            file.write(json.dumps(row) + "\n")


def verifiers(folder: Path, step: int, rows: list[Episode]) -> None:
    with (folder / "traces.jsonl").open("a") as file:
        for task, calls, score in rows:
            messages: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]
            for number, (call, answer) in enumerate(calls):
                told = {
                    "id": f"c{number}",
                    "type": "function",
                    "name": call.name,
                    "arguments": json.dumps(call.arguments),
                }
                messages.append({"role": "assistant", "content": "", "tool_calls": [told]})
                messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": answer})
            nodes = [
                {
                    "parent": row - 1 if row else None,
                    "message": message,
                    "token_ids": list(range(50)),
                    "mask": [True] * 50,
                }
                for row, message in enumerate(messages)
            ]
            data = {"type": "T", "data": {"id": task.task_id, "prompt": task.turns[0]}, "key": task.task_id}
            trace = {"task": data, "agent": {"trainable": True}, "nodes": nodes, "errors": [], "ok": True}
            trace["rewards"] = {"solved": {"score": score, "weight": 1.0}}
            run = {"type": "train", "work": {"type": "train", "step": step}}
            file.write(json.dumps({"task": data, "run": run, "traces": [trace]}) + "\n")


def rllm(folder: Path, step: int, rows: list[Episode]) -> None:
    """A file an episode. Each step repeats the chat before it."""
    place = folder / f"train_step_{step}_epoch_0"
    place.mkdir()
    for number, (task, calls, score) in enumerate(rows):
        chat: list[dict[str, Any]] = [{"role": "user", "content": task.turns[0]}]
        steps = []
        for row, (call, answer) in enumerate(calls):
            chat = [*chat, {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{row}", **called(call)}]}]
            told = {"role": "tool", "tool_call_id": f"c{row}", "content": answer}
            steps.append({"chat_completions": chat, "observation": [told], "reward": 0.0})
            chat = [*chat, told]
        steps.append({"chat_completions": [*chat, {"role": "assistant", "content": "done"}], "observation": []})
        episode = {
            "training_step": step,
            "episode_id": f"{step}-{number}",
            "task": {"id": task.task_id},
            "is_correct": score >= 1,
            "termination_reason": "env_done",
            "trajectories": [{"name": "agent", "reward": score, "steps": steps}],
        }
        (place / f"episode_{number}.json").write_text(json.dumps(episode))


WRITERS: dict[str, Callable[[Path, int, list[Episode]], None]] = {
    "trl": trl,
    "verl": verl,
    "verifiers": verifiers,
    "rllm": rllm,
}


def measured(command: list[str]) -> tuple[float, float, float]:
    """Seconds, CPU seconds, and GB of memory at most, of a command and its workers together."""
    before, began, peak = os.times(), time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def look() -> None:
        nonlocal peak
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [watched, *watched.children(recursive=True)]
                peak = max(peak, sum(member.memory_info().rss for member in family))
            except psutil.Error:
                continue
            time.sleep(0.1)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, cpu, peak / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--command", choices=("grow", "signals"), default="grow")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--format", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    args = parser.parse_args()
    for name in args.format:
        with tempfile.TemporaryDirectory() as folder:
            files, rows = Path(folder) / "rollouts", episodes()
            files.mkdir()
            for step in range(-(-args.rollouts // STEP)):
                WRITERS[name](files, step, list(islice(rows, min(STEP, args.rollouts - step * STEP))))
            size = sum(file.stat().st_size for file in files.rglob("*") if file.is_file()) / 2**20
            words = [args.command, str(files), "--out", f"{folder}/found"]
            if args.command == "grow":
                words += ["--environment", "miniworld", "--count", str(args.count)]
            seconds, cpu, peak = measured([sys.executable, "-m", "coevolve.cli", *words])
        print(
            f"{args.command} on {args.rollouts} rollouts of {name} ({size:.0f} MB): {seconds:.0f} s, "
            f"{cpu:.0f} CPU s, {peak:.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
