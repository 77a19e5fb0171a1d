"""Planted faults of wrappers: of `fully_shard` with its options, and of what tensor parallelism cuts.

Each is of one option, and no case without that option can show it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import unfreezing
from difftest.cases.gathered import axes_apart
from difftest.cases.layers.collective import Collective
from difftest.cases.numbers import IGNORE_INDEX
from difftest.cases.regions import norms
from difftest.cases.resets import REPEATED, resets
from difftest.judge.stage import Stage
from workers.faults import BACKEND, EVERYWHERE, SHARDING, planted
from workers.faults.features import replacing
from workers.training import train
from workers.training.features import forwards_first, kept_state_dict, own_function, skipped_block
from workers.training.layers.residual import Residual
from workers.training.session import Session
from workers.training.train import parameters

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

FSDP, STYLES = ("torch_fsdp",), ("torch_tp",)


def _size(case: Case, axis: str) -> int:
    return dict(case.layout.mesh.axes).get(axis, 1)


def _has(feature: str) -> Callable[[Case], bool]:
    return lambda case: has(case, feature)


@planted(
    paths=("wrappers",),
    about="parameters are bfloat16 after an update",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("mixed_precision"),
)
def masters_rounded(session: Session, _case: Case, _rank: int) -> Session:
    """As if there were no copy of them in float32."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.UPDATE:
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.copy_(parameter.bfloat16())

    return replace(session, after=after)


@planted(
    paths=("wrappers",),
    about="a state dict is a copy of what the module had",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("kept_state_dict"),
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


@planted(
    paths=("wrappers",),
    about="a block that is skipped is computed",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("skipped_block"),
)
def block_not_skipped(session: Session, _case: Case, _rank: int) -> Session:
    """In every forward pass. The module is made before the session places it."""
    skipped_block.is_used = lambda *_: True
    return session


@planted(
    paths=("wrappers",),
    about="of several parts' losses the last is not differentiated",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("forwards_first"),
)
def last_loss_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """What waits for its backward pass is all but the last."""
    forwards_first.differentiated = lambda losses, how: [*losses[:-1]]  # noqa: ARG005  the function's
    return session


@planted(
    paths=("wrappers",),
    about="the weight's gradient of a user's function is half of what it should be",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("own_function"),
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


@planted(
    paths=("wrappers",),
    about="a parameter stays frozen",
    backends=EVERYWHERE,
    blame=BACKEND,
    reaches=_has("unfreezing"),
)
def stays_frozen(session: Session, case: Case, _rank: int) -> Session:
    """Its gradient is dropped in every step."""
    options = of(case, unfreezing.Options)

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if options and stage is Stage.BACKWARD:
            parameters(module)[options.name].grad = None

    return replace(session, after=after)


@planted(
    paths=("wrappers",),
    about="gradients are divided twice by a factor",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: (case.sharded_by.gradient_divide_factor or 1.0) != 1.0 and case.sharded_by.summed,
)
def divided_twice(session: Session, case: Case, _rank: int) -> Session:
    """By that of the case."""
    factor = case.sharded_by.gradient_divide_factor or 1.0
    return replace(session, scale=session.scale / factor)


@planted(
    paths=("wrappers",),
    about="gradients that were scattered are not reduced over replicas",
    backends=FSDP,
    blame=SHARDING,
    reaches=lambda case: (
        case.sharded_by.synced == "scattered"
        and case.training.accumulation > 1
        and _size(case, "dp_replicate") > 1
    ),
)
def replicas_left_out(session: Session, _case: Case, _rank: int) -> Session:
    """In no accumulation part."""

    def quiet(module: nn.Module, _last: bool) -> AbstractContextManager[None]:  # noqa: FBT001  the session's
        return session.quiet(module, False)  # noqa: FBT003  the session's signature

    return replace(session, quiet=quiet)


@planted(
    paths=("wrappers",),
    about="a part that is reduced by itself replaces the gradients before it",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: case.sharded_by.synced == "every" and case.training.accumulation > 1,
)
def parts_replaced(session: Session, _case: Case, _rank: int) -> Session:
    """Only where every part is reduced; gradients of earlier parts are dropped."""

    @contextmanager
    def quiet(module: nn.Module, last: bool) -> Iterator[None]:  # noqa: FBT001  the session's signature
        module.zero_grad()
        with session.quiet(module, last):
            yield

    return replace(session, quiet=quiet)


@planted(
    paths=("wrappers",),
    about="what stays gathered after the forward pass is not gathered again after an update",
    backends=FSDP,
    blame=BACKEND,
    reaches=lambda case: case.sharded_by.reshard_after_forward is False and case.training.steps > 1,
)
def gathered_stale(session: Session, _case: Case, _rank: int) -> Session:
    """The second step computes with the weights of the first."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        cast("FSDPModule", placed).set_reshard_after_backward(False)
        return placed

    return replace(session, place=place)


@planted(
    paths=("regions",),
    about="a norm learns from a piece of the sequence alone",
    backends=STYLES,
    blame=SHARDING,
    reaches=lambda case: bool(_norms(case)) and _size(case, "tp") > 1,
)
def norm_of_a_piece(session: Session, case: Case, _rank: int) -> Session:
    """The gradients of its parameters are not added up over the ranks that have the other pieces."""

    def after(stage: Stage, _step: int, module: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if stage is Stage.BACKWARD and case.world_size > 1:
            for name in _norms(case):
                parameter = parameters(module)[name]
                if parameter.grad is not None:
                    parameter.grad = parameter.grad / _size(case, "tp")

    return replace(session, after=after)


def _norms(case: Case) -> list[str]:
    """The parameters of norms that work on pieces of the sequence."""
    paths = norms(case) if case.cut_by.sequence else set[str]()
    return [name for name in case.layout.parameters if name.rpartition(".")[0] in paths]


def _apart(case: Case) -> bool:
    return case.cut_by.loss != "whole" and _size(case, "tp") > 1


@planted(
    paths=("regions",),
    about="the loss counts the classes of the first rank alone",
    backends=(*STYLES, "torch_dtensor"),
    blame=SHARDING,
    reaches=lambda case: _apart(case) and len(case.layout.mesh.axes) == 1,
)
def classes_of_one_rank(session: Session, case: Case, _rank: int) -> Session:
    """Targets of other classes are ignored."""
    whole, first = session.loss, -(-case.model.outputs // _size(case, "tp"))
    if whole is None or case.world_size == 1:
        return session

    def loss(own: Case, output: Tensor, targets: Tensor, count: int) -> Tensor:
        held = targets.to_local() if hasattr(targets, "to_local") else targets
        return whole(own, output, torch.where(held < first, held, IGNORE_INDEX), count)

    return replace(session, loss=loss)


@planted(
    paths=("regions",),
    about="the weights of classes are forgotten",
    backends=("torch_dtensor", "xla_spmd"),
    blame=BACKEND,
    reaches=lambda case: case.cut_by.weighted and case.cut_by.loss == "whole" and not case.forms.torch_loss,
)
def weights_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """In the loss of the whole output."""
    return replacing(session, train, "of_targets", lambda *_: 1.0)


def _broadcasts_strided(case: Case) -> bool:
    first = case.model.layers[0]
    if not isinstance(first, Collective) or first.memory is msgspec.UNSET:
        return False
    return first.operation == "broadcast" and first.ranks > 1


@planted(
    paths=("collective_layouts",),
    about="a broadcast of a tensor with strides reaches the first half of its rows alone",
    backends=("torch_ddp",),
    blame=SHARDING,
    reaches=_broadcasts_strided,
)
def strides_lost(session: Session, case: Case, _rank: int) -> Session:
    """The others stay what they are."""
    right = session.operators.collect
    if case.world_size == 1:
        return session

    def collect(tensor: Tensor, spec: Collective) -> Tensor:
        done, half = right(tensor, spec), len(tensor) // 2
        return torch.cat([done[: len(tensor) - half], tensor[len(tensor) - half :] * spec.factor])

    return replace(session, operators=replace(session.operators, collect=collect))


def _clips_apart(case: Case) -> bool:
    return bool(axes_apart(case)) and case.training.clip_norm is not None and min(case.layout.mesh.shape) > 1


@planted(
    paths=("several_meshes",),
    about="gradients are clipped mesh by mesh",
    backends=("torch_dtensor", "xla_spmd"),
    blame=SHARDING,
    reaches=_clips_apart,
)
def clipped_by_mesh(session: Session, case: Case, _rank: int) -> Session:
    """Those of every layer that is sharded over the same axis, by a norm of their own."""
    if case.world_size == 1:
        return session
    apart = axes_apart(case)

    def clip(trained: Iterator[nn.Parameter], norm: float) -> None:
        held = dict(zip(case.layout.parameters, trained, strict=True))
        for axis in {*apart.values()}:
            own = [one for name, one in held.items() if apart[name.partition(".")[0]] == axis]
            session.clip(iter(own), norm)

    return replace(session, clip=clip)
