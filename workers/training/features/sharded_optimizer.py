"""`ZeroRedundancyOptimizer`: each replica updates some of the parameters, and sends them to the others.

Equal to an optimizer that updates all of them on every rank.
"""

from typing import Any

from torch import distributed
from torch.distributed.tensor import DTensor

from difftest.cases.features.sharded_optimizer import Options
from difftest.ground.errors import UnsupportedError
from workers.training.features import Hooks, nothing

DEVICES = ("cpu", "cuda")


def hooks(options: Options) -> Hooks:
    """Around the class of the optimizer."""

    def kind(optimizer: Any) -> Any:  # noqa: ANN401  a class, or a function that is called like it
        from torch.distributed.optim import ZeroRedundancyOptimizer

        def sharded(trained: list[Any], **arguments: Any) -> ZeroRedundancyOptimizer:  # noqa: ANN401
            _require_replicas(trained)
            view = {"parameters_as_bucket_view": True} if options.bucket_view else {}
            return ZeroRedundancyOptimizer(trained, optimizer_class=optimizer, **view, **arguments)

        return sharded

    return Hooks(kind=kind)


equal = nothing


def _require_replicas(trained: list[Any]) -> None:
    """`UnsupportedError` without a process group of torch's, or for DTensors."""
    tensors = (
        tensor for group in trained for tensor in (group["params"] if isinstance(group, dict) else [group])
    )
    joined = distributed.is_available() and distributed.is_initialized()
    if not joined or any(isinstance(one, DTensor) or one.device.type not in DEVICES for one in tensors):
        msg = "ZeroRedundancyOptimizer is for whole parameters on the ranks of a process group of torch's"
        raise UnsupportedError(msg)
