"""Planted faults of features of training that the cases of wrappers alone have."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import mixed_precision, unfreezing
from difftest.cases.resets import REPEATED, resets
from difftest.judge.stage import Stage
from workers.faults import BACKEND, EVERYWHERE, of_feature, planted
from workers.faults.features import replacing
from workers.training.features import forwards_first, kept_state_dict, own_function, skipped_block
from workers.training.layers.residual import Residual
from workers.training.session import Session
from workers.training.wrapped_names import parameters


@of_feature(
    "mixed_precision",
    about="parameters are bfloat16 after an update",
    paths=("wrappers",),
)
def masters_rounded(session: Session, _case: Case, _rank: int) -> Session:
    """As if there were no copy of them in float32."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.UPDATE:
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.copy_(parameter.bfloat16())

    return replace(session, after=after)


def _gives_float32_everywhere(case: Case) -> bool:
    mixed = of(case, mixed_precision.Options)
    return mixed is not None and mixed.output == "everywhere"


@planted(
    paths=("wrappers",),
    about="the gradient of an output that was cast counts twice",
    backends=("torch_fsdp",),
    blame=BACKEND,
    reaches=_gives_float32_everywhere,
)
def cast_counts_twice(session: Session, _case: Case, _rank: int) -> Session:
    """That of every module which is gathered by itself."""
    from torch.distributed.fsdp._fully_shard import _fsdp_state

    states: Any = _fsdp_state  # it exports no names
    right = states._cast_fp_tensor  # noqa: SLF001

    def twice(dtype: torch.dtype, tensor: torch.Tensor) -> torch.Tensor:
        cast: torch.Tensor = right(dtype, tensor)
        return cast + (tensor - tensor.detach()).to(dtype) if dtype is torch.float32 else cast

    return replacing(session, states, "_cast_fp_tensor", twice)


@of_feature(
    "kept_state_dict",
    about="a state dict is a copy of what the module had",
    paths=("wrappers",),
)
def kept_copy(session: Session, _case: Case, _rank: int) -> Session:
    """So that loading it takes updates back."""
    right = kept_state_dict.state_of
    kept_state_dict.state_of = lambda progress: {name: one.clone() for name, one in right(progress).items()}
    return session


@planted(
    paths=("wrappers",),
    about="what was read of the optimizer's state is zero",
    backends=("torch_ddp", "torch_fsdp"),
    blame=BACKEND,
    reaches=lambda case: has(case, "state_dict_options") and case.training.optimizer not in {"sgd", "none"},
)
def state_without_optimizer(session: Session, _case: Case, _rank: int) -> Session:
    """Its steps and averages begin anew."""
    from workers.training.features import state_dict_options

    right = state_dict_options.state_of

    def state_of(module: nn.Module, optimizer: torch.optim.Optimizer, form: str) -> tuple[Any, Any]:
        weights, _ = right(module, optimizer, form)
        optimizer.state.clear()
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        _, kept = right(module, optimizer, form)
        optimizer.zero_grad()
        return weights, kept

    state_dict_options.state_of = state_of
    return session


@of_feature(
    "skipped_block",
    about="a block that is skipped is computed",
    backends=("torch_fsdp", "torch_dtensor", "xla_spmd"),
    paths=("wrappers",),
)
def block_not_skipped(session: Session, _case: Case, _rank: int) -> Session:
    """In every forward pass. The module is made before the session places it."""
    skipped_block.is_used = lambda *_: True
    return session


@of_feature(
    "forwards_first",
    about="of several parts' losses the last is not differentiated",
    paths=("wrappers",),
)
def last_loss_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """What waits for its backward pass is all but the last."""
    forwards_first.differentiated = lambda losses, how: [*losses[:-1]]  # noqa: ARG005  the function's
    return session


@of_feature(
    "own_function",
    about="the weight's gradient of a user's function is half of what it should be",
    paths=("wrappers",),
)
def halved_by_own_function(session: Session, _case: Case, _rank: int) -> Session:
    """That of every Linear layer."""
    right = own_function.of_weight
    own_function.of_weight = lambda gradient, x: right(gradient, x) / 2
    return session


@planted(
    paths=("wrappers",),
    about="a block that is applied several times is applied once",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=lambda case: REPEATED in dict(resets(case)),
)
def block_applied_once(session: Session, _case: Case, _rank: int) -> Session:
    """Each of the model's."""

    def place(module: nn.Module) -> nn.Module:
        for block in module.modules():
            if isinstance(block, Residual):
                block.times = 1
        return session.place(module)

    return replace(session, place=place)


@of_feature(
    "unfreezing",
    about="a parameter stays frozen",
    backends=("torch_dtensor", "xla_spmd"),  # on meshes that shard, which DDP does not take
    paths=("wrappers",),
)
def stays_frozen(session: Session, case: Case, _rank: int) -> Session:
    """Its gradient is dropped in every step."""
    options = of(case, unfreezing.Options)

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if options and stage is Stage.BACKWARD:
            parameters(module)[options.name].grad = None

    return replace(session, after=after)
