"""What results.jsonl says of the claims in README.md: `python studies/desk-smollm2/answers.py`."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from coevolve.core.statistics import bootstrap
from coevolve.stages.evaluate.config import Evaluate

WITHHELD = ("label by number", "refund by subject", "assign by subject", "escalate by name", "priority by name")


def solved(line: dict[str, Any], policy: int) -> list[int]:
    return [int(one) for one in line["test"]["solved"][policy]]


def gain(first: list[int], last: list[int], kinds: list[str]) -> str:
    differences = [float(b - a) for a, b in zip(first, last, strict=True)]
    low, high = bootstrap(differences, Evaluate(), 0, kinds)
    return f"{100 * sum(differences) / len(differences):+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"


def main() -> None:
    lines = [json.loads(line) for line in (Path(__file__).parent / "results.jsonl").read_text().splitlines()]
    by_arm: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in lines:
        by_arm[line["arm"]][line["seed"]] = line
        kinds = line["test"]["kinds"]
        first, last = solved(line, 0), solved(line, -1)
        rates = " ".join(
            f"{sum(solved(line, policy)) / len(kinds):.3f}" for policy in range(len(line["test"]["solved"]))
        )
        lost = sum(a > b for a, b in zip(first, last, strict=True))
        print(
            f"{line['arm']}, seed {line['seed']}: test {rates}; gain {gain(first, last, kinds)}; lost {lost} of {sum(first)}"
        )
        sizes, before, after = Counter(kinds), Counter[str](), Counter[str]()
        for kind, a, b in zip(kinds, first, last, strict=True):
            before[kind] += a
            after[kind] += b
        for kind, size in sizes.items():
            mark = " (in no seed task)" if kind in WITHHELD else ""
            print(f"  {kind}{mark}: {before[kind]} -> {after[kind]} of {size}; new tasks {line['grown'].get(kind, 0)}")
    for seed in sorted(by_arm["loop"].keys() & by_arm["static"].keys()):
        loop, static = by_arm["loop"][seed], by_arm["static"][seed]
        print(f"loop over static, seed {seed}: {gain(solved(static, -1), solved(loop, -1), loop['test']['kinds'])}")


main()
