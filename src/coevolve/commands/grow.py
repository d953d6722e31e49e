"""``coevolve grow``: rollouts of any trainer in, verified tasks out."""

import argparse
from pathlib import Path

from coevolve.core.numeric_options import count, whole
from coevolve.rollouts.rollout_formats import AUTO, FORMATS, listed

HELP = """
  coevolve grow outputs/completions --environment miniworld --count 20 --out grown

ROLLOUTS are files, folders or globs that your trainer wrote. The formats, and what each of them does not record:

{formats}

A rollout without a task id belongs to the known task that begins with its first request, if exactly one does. In TRL's
prompts, which may begin with examples, the last request counts. Names in traces of verifiers need not be ids: if no known
task has such a name, the request decides. The command leaves out all other rollouts, also those with an unknown id. The
first lines of its output count them.

DIR gets tasks.jsonl, verdicts.jsonl, signals.jsonl, lineage.jsonl, skipped.jsonl, validation/, data_docs/ and index.html.
After an interruption, the same command continues. docs/your-trainer.md shows an example for each trainer.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP.replace("{formats}", listed())
    parser.add_argument("rollouts", nargs="+", metavar="ROLLOUTS", help="the files of your trainer: see below")
    parser.add_argument("--environment", required=True, metavar="NAME", help="an environment of `coevolve env list`")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--count", type=count, default=200, metavar="N", help="most tasks to write (default: 200)")
    parser.add_argument(
        "--known", type=Path, metavar="FILE", help="tasks of the rollouts (default: the environment's training tasks)"
    )
    parser.add_argument(
        "--panel",
        type=Path,
        action="append",
        metavar="FILE",
        help="evaluation tasks, to refuse overlaps (default: all panels of the environment)",
    )
    parser.add_argument(
        "--format", choices=(AUTO, *FORMATS), default=AUTO, help="format of ROLLOUTS (default: auto, by content)"
    )
    parser.add_argument("--reward", metavar="NAME", help="the reward to take as the score, if there are several")
    parser.add_argument(
        "--kinds",
        nargs="+",
        metavar="KIND",
        help="kinds of signals: forgetting, boundary, rare, unsolved (default: the first three)",
    )
    parser.add_argument(
        "--explorer",
        choices=("scripted", "endpoint"),
        default="scripted",
        help="endpoint asks the LLM at --url for calls to try (default: scripted, without a model)",
    )
    parser.add_argument(
        "--synthesizer",
        choices=("scripted", "endpoint"),
        default="scripted",
        help="endpoint asks the LLM for the words of a task (default: scripted, by templates)",
    )
    parser.add_argument("--url", help="server of the LLM (default: http://127.0.0.1:8000/v1)")
    parser.add_argument("--model", default="", help="name of the LLM on that server")
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        help="your agent, a model directory or URL: keeps the tasks that it solves about half the time",
    )
    parser.add_argument(
        "--policy-model", default="", metavar="NAME", help="name of POLICY on its server (default: that of --model)"
    )
    parser.add_argument(
        "--samples", type=count, default=4, metavar="K", help="episodes of POLICY per task (default: 4)"
    )
    parser.add_argument(
        "--words",
        choices=("none", "language", "values"),
        default="language",
        help="check of the words, as in `coevolve verify` (default: language)",
    )
    parser.add_argument("--seed", type=whole, default=0, help="seed of all randomness (default: 0)")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.terminal import plain
    from coevolve.rollouts.grown_tasks import grow
    from coevolve.stages.verify.candidates import by_name

    names = ("count", "format", "reward", "kinds", "explorer", "synthesizer", "url", "model", "policy", "policy_model")
    given = {name: getattr(args, name) for name in (*names, "samples", "words", "seed")}
    grow(
        args.rollouts,
        args.environment,
        known=args.known,
        panels=by_name(args.panel) if args.panel else None,
        out=args.out,
        say=lambda line: print(plain(line), flush=True),
        **{name: value for name, value in given.items() if value is not None},
    )
    return 0
