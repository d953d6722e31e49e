"""``coevolve grow``: rollouts of any trainer in, verified tasks out."""

import argparse
from typing import Any

from coevolve.commands.options import DIR, ENVIRONMENT, FILE, WORDS
from coevolve.core.numeric_options import count, whole
from coevolve.core.terminal import plain
from coevolve.rollouts.grown_tasks import grow
from coevolve.rollouts.rollout_formats import AUTO, FORMATS, listed
from coevolve.stages.verify.candidates import by_name

HELP = f"""
  coevolve grow outputs/completions --environment miniworld --count 20 --out grown

ROLLOUTS are files, folders or globs that your trainer wrote. The formats, and what each of them does not record:

{listed()}

A rollout without a task id belongs to the known task that begins with its first request, if exactly one does. In TRL's
prompts, which may begin with examples, the last request counts. Names in traces of verifiers need not be ids: if no known
task has such a name, the request decides. The command leaves out all other rollouts, also those with an unknown id. The
first lines of its output count them.

DIR gets tasks.jsonl, verdicts.jsonl, signals.jsonl, lineage.jsonl, skipped.jsonl, validation/, data_docs/ and index.html.
After an interruption, the same command continues. docs/your-trainer.md shows an example for each trainer.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("rollouts", nargs="+", metavar="ROLLOUTS", help="the files of your trainer: see below")
    add("--environment", required=True, **ENVIRONMENT)
    add("--out", required=True, **DIR, help="the folder to write")
    add("--count", type=count, default=200, metavar="N", help="most tasks to write")
    add("--known", **FILE, help="tasks of the rollouts (default: the environment's training tasks)")
    panels = "evaluation tasks, to refuse overlaps (default: all panels of the environment)"
    add("--panel", action="append", **FILE, help=panels)
    add("--format", choices=(AUTO, *FORMATS), default=AUTO, help="format of ROLLOUTS (default: auto, by content)")
    add("--reward", metavar="NAME", help="the reward to take as the score, if there are several")
    kinds = "kinds of signals: forgetting, boundary, rare, unsolved (default: the first three)"
    add("--kinds", nargs="+", metavar="KIND", help=kinds)
    scripts: dict[str, Any] = {"choices": ("scripted", "endpoint"), "default": "scripted"}
    add("--explorer", **scripts, help="endpoint asks the LLM at --url for calls to try; scripted needs no model")
    add("--synthesizer", **scripts, help="endpoint asks the LLM for the words of a task; scripted has templates")
    add("--url", help="server of the LLM (default: http://127.0.0.1:8000/v1)")
    add("--model", default="", help="name of the LLM on that server")
    policy = "your agent, a model directory or URL: keeps the tasks that it solves about half the time"
    add("--policy", metavar="POLICY", help=policy)
    add("--policy-model", default="", metavar="NAME", help="name of POLICY on its server (default: that of --model)")
    add("--samples", type=count, default=4, metavar="K", help="episodes of POLICY per task")
    add("--words", **WORDS, help="check of the words, as in `coevolve verify`")
    add("--seed", type=whole, default=0, help="seed of all randomness")


def run(args: argparse.Namespace) -> int:
    given = {
        name: value for name, value in vars(args).items() if name not in ("command", "panel") and value is not None
    }
    panels = by_name(args.panel) if args.panel else None
    grow(**given, panels=panels, say=lambda line: print(plain(line), flush=True))
    return 0
