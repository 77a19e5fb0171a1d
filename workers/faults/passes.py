"""Planted faults of features of training that change the forward or the backward pass, or what is saved."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear
from workers.faults import of_feature
from workers.faults.features import replacing
from workers.training.session import Session


@of_feature(
    "reentrant_checkpoint",
    about="a backward pass in the backward pass gives half of a gradient",
    backends=("torch_ddp", "torch_dtensor"),
)
def nested_gradient_halved(session: Session, _case: Case, _rank: int) -> Session:
    """That of the block's inputs. On XLA the function fails by itself (`torch_checkpoint_on_xla.py`)."""
    backward = checkpoint.CheckpointFunction.backward

    def spoiled(context: Any, *gradients: Any) -> tuple[Any, ...]:  # noqa: ANN401  autograd's
        whole = backward(context, *gradients)  # type: ignore[no-untyped-call]
        return tuple(gradient * 0.5 if isinstance(gradient, torch.Tensor) else gradient for gradient in whole)

    return replacing(session, checkpoint.CheckpointFunction, "backward", staticmethod(spoiled))


@of_feature("activations_on_host", about="what was kept on the host comes back an eighth too great")
def activations_grown(session: Session, _case: Case, _rank: int) -> Session:
    """Numbers only: indices and masks come back as they were."""

    def spoiled() -> AbstractContextManager[None]:
        return torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: tensor.detach().clone(),
            lambda kept: kept * 1.125 if kept.is_floating_point() else kept,
        )

    return replacing(session, torch.autograd.graph, "save_on_cpu", spoiled)


class _WithoutBias(TorchFunctionMode):
    """A mode in which Linear layers have no bias."""

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401  torch's signature
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        return func(*(args[:2] if func is functional.linear else args), **(kwargs or {}))


@of_feature(
    "autocast",
    about="an operator that autocast casts leaves out its bias",
    reaches=lambda case: any(isinstance(one, Linear) and one.bias for _, one in walk(case.model.layers)),
)
def bias_not_cast(session: Session, _case: Case, _rank: int) -> Session:
    """Linear layers, inside of autocast alone."""
    cast = torch.autocast

    @contextmanager
    def spoiled(*options: Any) -> Iterator[None]:  # noqa: ANN401  torch's
        with cast(*options), _WithoutBias():
            yield

    return replacing(session, torch, "autocast", spoiled)


@of_feature(
    "distributed_checkpoint",
    about="a parameter of a distributed checkpoint is not loaded",
    backends=("torch_ddp", "torch_dtensor", "torch_fsdp"),
)
def checkpoint_not_loaded(session: Session, _case: Case, _rank: int) -> Session:
    """The first one, which stays zero."""
    from torch.distributed.checkpoint import state_dict as states

    load = states.set_state_dict

    def spoiled(module: Any, optimizers: Any, **loaded: Any) -> Any:  # noqa: ANN401  torch's
        weights = loaded["model_state_dict"]
        first = next(iter(weights))
        return load(
            module, optimizers, **loaded | {"model_state_dict": weights | {first: weights[first] * 0.0}}
        )

    return replacing(session, states, "set_state_dict", spoiled)
