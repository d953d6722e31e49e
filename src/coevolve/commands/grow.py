"""``coevolve grow``: rollouts of any trainer in, verified tasks out."""

import argparse
from pathlib import Path

from coevolve.readers.rollouts.rollout_formats import AUTO, FORMATS, listed

HELP = """
ROLLOUTS are files, folders or globs that your trainer wrote. The formats, and what each of them does not record:

{formats}

A rollout without a task id belongs to the known task that begins with its first request, if exactly one does. All other
rollouts are left out, and the first line of the output says how many.

DIR gets tasks.jsonl, verdicts.jsonl, signals.jsonl, lineage.jsonl, skipped.jsonl, validation/, data_docs/ and index.html.
After an interruption the same command goes on where it was. docs/your-trainer.md shows an example for each trainer.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP.replace("{formats}", "\n".join(listed()))
    parser.add_argument("rollouts", nargs="+", metavar="ROLLOUTS")
    parser.add_argument("--environment", required=True, metavar="NAME")
    parser.add_argument(
        "--known", type=Path, metavar="FILE", help="the tasks of the rollouts (the environment's split seed)"
    )
    parser.add_argument(
        "--panel", type=Path, action="append", metavar="FILE", help="evaluation tasks to keep out (all panels)"
    )
    parser.add_argument("--count", type=int, default=200, metavar="N", help="tasks to keep (200)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--format", choices=(AUTO, *FORMATS), default=AUTO, help="format of ROLLOUTS (auto)")
    parser.add_argument("--reward", metavar="NAME", help="the reward that is the score, where there are several")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="signals (forgetting boundary rare); also unsolved")
    parser.add_argument("--explorer", choices=("scripted", "endpoint"), default="scripted", help="(scripted)")
    parser.add_argument("--synthesizer", choices=("scripted", "endpoint"), default="scripted", help="(scripted)")
    parser.add_argument("--url", help="the server of `endpoint` (http://127.0.0.1:8000/v1)")
    parser.add_argument("--model", default="", help="the model's name on that server")
    parser.add_argument(
        "--policy", metavar="POLICY", help="your agent, a model directory or URL: keeps the most instructive tasks"
    )
    parser.add_argument("--policy-model", default="", metavar="NAME", help="its name on the server (that of --model)")
    parser.add_argument("--samples", type=int, default=4, metavar="K", help="episodes of POLICY per task (4)")
    parser.add_argument("--words", choices=("none", "language", "values"), default="language", help="(language)")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> int:
    from coevolve.core.terminal import plain
    from coevolve.stages.grow.grown_tasks import grow

    optional = {name: getattr(args, name) for name in ("url", "kinds") if getattr(args, name) is not None}
    grow(
        args.rollouts,
        args.environment,
        known=args.known,
        panels={file.stem: file for file in args.panel} if args.panel else None,
        out=args.out,
        say=lambda line: print(plain(line), flush=True),
        **{
            name: getattr(args, name)
            for name in ("count", "format", "reward", "explorer", "synthesizer", "model", "policy", "policy_model")
        },
        **{name: getattr(args, name) for name in ("samples", "words", "seed")},
        **optional,
    )
    return 0
