"""Share the passes of a step among processes of this machine.

Each process holds a copy of the model. Results come back in the order of the parts, so that sums over them, and with them the
bytes of a run, do not depend on the number of processes.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

Arrays = list[np.ndarray[Any, Any]]
Call = Callable[..., Any]  # takes the name of a method and its arguments


class PassSharing:
    """Processes that share the parts of a step; each of ``calls`` runs a method in one of them."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._pool = ThreadPoolExecutor(len(calls), thread_name_prefix="passes")

    def send_weights(self, parameters: Iterable[torch.Tensor]) -> None:
        """Load the values of ``parameters`` in every process."""
        weights = [parameter.detach().numpy() for parameter in parameters]
        self._run([("load", weights)] * len(self._calls))

    def run_parts(self, method: str, parts: Sequence[Any], sizes: Sequence[int], *arguments: Any) -> list[Any]:
        """The results of ``method`` for ``parts`` of these ``sizes``, in the order of the parts."""
        shares = shared(sizes, len(self._calls))
        requests = [(method, [parts[index] for index in share], *arguments) for share in shares]
        results: list[Any] = [None] * len(parts)
        for share, values in zip(shares, self._run(requests), strict=True):
            for index, value in zip(share, values, strict=True):
                results[index] = value
        return results

    def _run(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send one request to each process."""
        if len(requests) == 1:
            return [self._calls[0](*requests[0])]
        return list(self._pool.map(lambda call, request: call(*request), self._calls, requests))


def shared(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The indices of the parts that each of ``count`` processes takes: the largest part first, to the least loaded process."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += sizes[index]
    return shares


def in_training(model: Any) -> list[torch.nn.Parameter]:
    """The parameters of ``model`` that the optimizer changes."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def copy_weights(parameters: Iterable[torch.nn.Parameter], weights: Iterable[Any]) -> None:
    """Set ``parameters`` to ``weights``, arrays or tensors."""
    with torch.no_grad():
        for parameter, values in zip(parameters, weights, strict=True):
            parameter.copy_(torch.as_tensor(values))
