"""Tokens that an arm of a study generates in training until it is as good as another arm at its end."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

Curve = tuple[Sequence[float], Sequence[float]]  # tokens before each policy, and its success


def tokens_to(level: float, curve: Curve) -> float:
    """The tokens at which the success of ``curve`` first is ``level``, linear between policies; infinite if it never is."""
    tokens, success = curve
    if success[0] >= level:
        return float(tokens[0])
    for t in range(1, len(success)):
        if success[t] >= level:
            share = (level - success[t - 1]) / (success[t] - success[t - 1])
            return tokens[t - 1] + share * (tokens[t] - tokens[t - 1])
    return math.inf


def table(curves: Mapping[str, Mapping[int, Curve]], base: str, panel: str) -> list[str]:
    """Lines of Markdown: for each arm, the tokens until it is as good as ``base`` of the same seed at its end.

    ``curves`` holds arms, then seeds. A run that never gets there counts as infinite, so the median stays honest about it. No lines
    if no other arm shares a seed with ``base`` or no tokens were counted.
    """
    ends = {seed: (tokens[-1], success[-1]) for seed, (tokens, success) in curves.get(base, {}).items() if tokens[-1]}
    lines = []
    for arm, runs in curves.items():
        found = [tokens_to(ends[seed][1], curve) / ends[seed][0] for seed, curve in runs.items() if seed in ends]
        if found and arm != base:
            middle = median(found)
            share = f"{middle:.2f}" if math.isfinite(middle) else "more than it has"
            lines.append(f"| {arm} | {sum(map(math.isfinite, found))} of {len(found)} | {share} |")
    if not lines:
        return []
    words = f"Training tokens until an arm solves as much of {panel} as {base} of the same seed at its end, linear between policies:"
    return [
        "",
        words,
        "",
        f"| arm | runs that get there | median share of the tokens of {base} |",
        "|---|---|---|",
        *lines,
    ]
