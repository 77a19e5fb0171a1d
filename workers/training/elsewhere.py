"""Operators whose results are on another device than the run's, found in autograd's graph of the loss.

Every node of the graph knows the device of its operator's results. Looking at them changes no numbers and
runs no operator. Computation that needs no gradient is not in the graph.
"""

from collections import Counter
from typing import Any

from torch import Tensor


def operators_elsewhere(loss: Tensor, device: str) -> Counter[str]:
    """How often an operator that `loss` depends on gave a result on another type of device than `device`.

    The names are autograd's, with the device: `MmBackward0 on cpu`. Empty without a graph, as where JAX
    differentiates, and where torch is too old to say (`_input_metadata` is in 2.4).
    """
    counts, waiting, reached = Counter[str](), [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in reached:
            continue
        reached.add(node)
        waiting += [following for following, _ in node.next_functions]
        places = _places(node, device) - {device}
        counts.update(f"{node.name().rpartition('::')[2]} on {place}" for place in places)
    return counts


def _places(node: Any, device: str) -> set[str]:  # noqa: ANN401  a node of autograd
    """The devices of a node's results, without those that it does not give.

    For a result that is undefined, as the gradient of a weight that there is not, autograd notes a number on
    the CPU.
    """
    results = [(result.device.type, tuple(result.shape)) for result in getattr(node, "_input_metadata", ())]
    placeholder = ("cpu", ())
    given = [result for result in results if result != placeholder]
    return {place for place, _ in (given if any(place == device for place, _ in given) else results)}
