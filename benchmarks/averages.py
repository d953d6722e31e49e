"""What lies between two policies of a finished run: success of their average in weights, by the share of the first.

    python benchmarks/averages.py --run . --shares 0 0.25 0.5 0.75 1
    python benchmarks/averages.py --run . --tools cancel_event,lock     # tasks that need one of these, and the others

The weights are (1 - b) θ + b θ_0, those of policies/0 being θ_0 (WiSE-FT, arXiv 2109.01903). Nothing is trained: a row takes as
long as a panel. `--tools` are by default those that the run withheld from synthesis. Choose on `validation`.
"""

import argparse
from pathlib import Path

from coevolve.environments.registry import make
from coevolve.policies.transformers_policy import TransformersPolicy
from coevolve.policies.transformers_policy import load as load_model
from coevolve.readers.study import OTHERS, cut
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import evaluate
from coevolve.stages.params import load
from coevolve.stages.train.saving import kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path(), help="the folder of a finished run")
    parser.add_argument("--last", type=int, help="the policy to average with policies/0 (the run's last)")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75, 1.0], help="of policies/0")
    parser.add_argument("--panel", default="validation")
    parser.add_argument("--tools", type=lambda text: text.split(","), help="names, separated by commas")
    args = parser.parse_args()
    params = load(args.run / "params.yaml")
    environment = make(params.environment)
    tasks = environment.tasks(args.panel)[: params.evaluate.tasks]
    tools = args.tools or params.synthesize.withhold
    place = args.run / "policies"
    last = params.iterations[-1].next if args.last is None else args.last
    limits = Limits.of(params.policy)
    print(f"policies/{last}, share of policies/0 | {args.panel} | {','.join(tools) or '-'} | {OTHERS}")
    for share in args.shares:
        model, tokenizer = load_model(place / str(last), params.policy.threads, params.policy.dtype)
        policy = TransformersPolicy(kept(model, place / "0", share), tokenizer, 0.0, params.policy.template)
        played = evaluate(policy, environment, {args.panel: tasks}, limits, params.evaluate, params.seed)
        solved = {one.task_id: one.success for one in played}
        parts = cut({"tools": tools}, tasks, [solved])
        named = [f"{parts[name][0]:.3f}" if name in parts else "-" for name in ("tools", OTHERS)]
        print(f"{share:.2f} | {sum(solved.values()) / len(solved):.3f} | {' | '.join(named)}", flush=True)


if __name__ == "__main__":
    main()
