"""FSDP2, `fully_shard`: every parameter is sharded over one mesh axis.

Residual blocks are gathered one at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from difftest.cases.case import Case
from difftest.cases.feature import of
from difftest.cases.features import mixed_precision
from difftest.cases.gathered import (
    axes_apart,
    gathered_alone,
    gathered_together,
    prefetched,
    resting,
    widened_alone,
)
from difftest.cases.layout import Placement, Replicate, Shard, ways
from difftest.judge.stage import Stage
from workers import sides
from workers.torch import devices, process_groups
from workers.training.refusals import for_modules_only, mixed_rows

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import Shard as TorchShard

    from difftest.judge.events import Events
    from workers.training.dispatched import Direction
    from workers.training.session import Session

TITLE = "FSDP2"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment

MIXED = "mixed_precision"
"""The feature of training that `fully_shard` has as a policy."""


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why some parameter is not sharded over the last mesh axis alone, or the batch not by rows; or None."""
    if case.forms.optimizer_before:
        return "fully_shard replaces the parameters, and its documentation has the optimizer made after it"
    if not process_groups.cuts_rows_only(case):
        return "fully_shard takes whole rows; the layout cuts the batch along the sequence"
    if reason := mixed_rows(case) or _without_dims(case):
        return reason
    axes = case.layout.mesh.names
    if axes_apart(case):
        return None
    if len(axes) > 2:  # noqa: PLR2004  one to replicate over, one to shard over
        return "fully_shard shards over one axis and replicates over one; the mesh has more"
    return refusal(case, axes) if case.world_size > 1 else None


def _without_dims(case: Case) -> str | None:
    names = (name for name, shape in case.model.parameters().items() if not shape)
    name = next((name for name in names if name != case.sharded_by.ignored), None)
    return f"FSDP does not support parameters without a dim, as {name}" if name else None


def refusal(case: Case, axes: tuple[str, ...]) -> str | None:
    """Why `fully_shard` cannot give the parameters their placements on `axes`, or None.

    The last axis must shard, the others must replicate. On an axis of one rank the two are equal.
    """
    mixed = of(case, mixed_precision.Options)
    if mixed and mixed.output == "everywhere" and not widened_alone(case):
        return "a layer that is not wrapped by itself would be given float32 beside its bfloat16 parameters"
    for name in case.model.parameters():
        if name == case.sharded_by.ignored:
            continue
        placements = by_axis(case, name)
        *before, last = (placements[axis] for axis in axes)
        if isinstance(last, Replicate) and case.layout.mesh.size(axes[-1]) > 1:
            return "fully_shard shards every parameter over its axis; the layout replicates one"
        if any(isinstance(p, Shard) for p in before):
            return "fully_shard shards over one axis; the layout shards a parameter over two"
        if isinstance(last, Shard) and last.dim and uneven(case, name, last.dim):
            return "fully_shard cuts other dims than the first only evenly"
    return None


def by_axis(case: Case, name: str) -> dict[str, Placement]:
    """A parameter's placement on every mesh axis."""
    return dict(zip(case.layout.mesh.names, case.layout.parameters[name], strict=True))


def uneven(case: Case, name: str, dim: int) -> bool:
    """Whether the axes that cut a parameter's `dim`, those within a rank's module too, leave a remainder."""
    size = case.model.parameters()[name][dim]
    return bool(size % ways(dim, case.layout.parameters[name], case.layout.mesh))


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins the process group and shards over the layout's mesh, of one axis or two."""
    shards = case.layout.mesh.names[-1] if case.sharded_by.flattened else ""
    with process_groups.joined(case, rank, rendezvous, kind=kind, flattened=shards) as member:
        joined = process_groups.local_session(
            member, lambda module: shard(case, module.to(member.device), member.mesh), partial(quiet, case)
        )
        yield with_options(case, joined)


def with_options(case: Case, session: "Session") -> "Session":
    """The session of FSDP with the case's options."""
    from workers.training.features import nothing

    factor = case.sharded_by.gradient_divide_factor
    mixed = _noting_reductions(session) if of(case, mixed_precision.Options) else session
    scaled = replace(mixed, does={MIXED: nothing}, scale=session.scale if factor is None else factor)
    scaled = _resharding(scaled) if case.sharded_by.kept_in_step else scaled
    return scaled if case.sharded_by.ignored is None else _averaging(scaled, case.sharded_by.ignored)


def _averaging(session: "Session", ignored: str) -> "Session":
    """The session that averages the gradients of an ignored parameter, as the program has to."""
    from torch import distributed

    from workers.training.wrapped_names import parameters

    def after(stage: "Stage", _step: int, module: "nn.Module", _optimizer: "torch.optim.Optimizer") -> None:
        gradient = parameters(module)[ignored].grad
        if stage is Stage.BACKWARD and gradient is not None:
            distributed.all_reduce(gradient)
            gradient.div_(session.scale)

    return replace(session, after=after)


def _resharding(session: "Session") -> "Session":
    """The session that shards parameters again behind the backward passes, which leave them as they are."""
    from torch.distributed.fsdp import FSDPModule

    def after(stage: "Stage", step: int, module: "nn.Module", optimizer: "torch.optim.Optimizer") -> None:
        if stage is Stage.BACKWARD:
            for group in module.modules():
                if isinstance(group, FSDPModule):
                    group.reshard()
        session.after(stage, step, module, optimizer)

    return replace(session, after=after)


def _noting_reductions(session: "Session") -> "Session":
    """The session, which reports the dtypes in which gradients were added up too."""
    from workers.torch.reductions import Reductions

    reductions = Reductions()

    @contextmanager
    def observe(direction: "Direction", module: "nn.Module") -> Iterator[None]:
        with session.observe(direction, module), reductions.observe(direction, module):
            yield

    def events() -> "Events":
        return structs.replace(session.events(), reduced=dict(reductions.counted))

    return replace(session, observe=observe, events=events)


def shard(case: Case, module: "nn.Module", mesh: "DeviceMesh") -> "nn.Module":
    """`fully_shard` of the residual blocks and then of the rest, each parameter along the layout's dim.

    What is a group by itself is what the case's `sharding` says. A block that uses a tied weight belongs to
    the rest, because FSDP2 requires modules that share a parameter in one group.
    """
    from torch.distributed.fsdp import fully_shard

    assert mesh.mesh_dim_names  # noqa: S101  our meshes have names
    if apart := axes_apart(case):
        for path, axis in apart.items():
            fully_shard(module.get_submodule(path), mesh=mesh[axis], **_options(case, outermost=False))
        return module
    from workers.training.features.autocast import wide_again

    how = partial(
        fully_shard, mesh=mesh, shard_placement_fn=placement_fn(case, module, mesh.mesh_dim_names[-1])
    )
    if case.sharded_by.ignored is not None:
        how = partial(how, ignored_params={module.get_parameter(case.sharded_by.ignored)})
    there = {name for name, _ in module.named_children()}  # of a pipeline, those of a stage
    alone = [path for path in gathered_alone(case) if path.partition(".")[0] in there]
    together = [module.get_submodule(path) for path in gathered_together(case)]
    for group in (*([module.get_submodule(path)] for path in alone), together, [module]):
        if group:
            how(group, **_options(case, outermost=group == [module]))
            _set(case, cast("FSDPModule", group[0]))
    _order(case, {path: cast("FSDPModule", module.get_submodule(path)) for path in alone})
    mixed = of(case, mixed_precision.Options)
    if mixed and mixed.output == "loss":
        module.register_forward_hook(lambda _module, _inputs, outputs: wide_again(outputs))
    return module


def _set(case: Case, group: "FSDPModule") -> None:
    """What a group is told after it was wrapped."""
    if case.sharded_by.summed:
        group.set_force_sum_reduction_for_comms(True)
    factor = case.sharded_by.gradient_divide_factor
    if factor and case.sharded_by.by_older_name:
        group.set_reduce_scatter_divide_factor(factor)
    elif factor:
        group.set_gradient_divide_factor(factor)
    if case.sharded_by.kept_in_step:
        group.set_reshard_after_backward(False)


def _order(case: Case, groups: "dict[str, FSDPModule]") -> None:
    """What is gathered ahead, and what is not gathered in the backward pass."""
    for path in resting(case):
        if path in groups:
            groups[path].set_unshard_in_backward(False)
    for way, at, ahead in prefetched(case):
        if {at, ahead} <= {*groups}:
            getattr(groups[at], f"set_modules_to_{way}_prefetch")([groups[ahead]])


def _options(case: Case, *, outermost: bool) -> dict[str, Any]:
    """The arguments of `fully_shard` that are not at their defaults."""
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy

    options: dict[str, Any] = {}
    if case.sharded_by.reshard_after_forward is not None:
        options["reshard_after_forward"] = case.sharded_by.reshard_after_forward
    if case.sharded_by.kept_in_step:
        options["reshard_after_forward"] = False
    if case.sharded_by.offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    if mixed := of(case, mixed_precision.Options):
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16,
            reduce_dtype=getattr(torch, mixed.reduce),
            output_dtype=torch.float32 if mixed.widens(outermost=outermost) else None,
        )
    return options


def dim(case: Case, name: str, axis: str) -> int:
    """The dim that `axis` shards.

    It is the first for an axis that the layout does not have, and for a weight whose tie a move broke.
    """
    placement = by_axis(case, name).get(axis) if name in case.layout.parameters else None
    return placement.dim if isinstance(placement, Shard) else 0


def placement_fn(case: Case, module: "nn.Module", axis: str) -> "Callable[[nn.Parameter], TorchShard]":
    """How `axis` shards each parameter of the model, in the form that `fully_shard` takes."""
    from torch.distributed.tensor import Shard as TorchShard

    dims = {parameter: dim(case, name, axis) for name, parameter in module.named_parameters()}
    return lambda parameter: TorchShard(dims[parameter])


def quiet(
    case: Case,
    module: "nn.Module",
    last: bool,  # noqa: FBT001  the session's signature
) -> AbstractContextManager[None]:
    """Reduces gradients in the accumulation parts that the case's `sharding` says, usually in the last."""
    from torch.distributed.fsdp import FSDPModule

    groups = [module] if isinstance(module, FSDPModule) else list(module.children())
    for group in (one for one in groups if isinstance(one, FSDPModule)):
        if case.sharded_by.kept_between:
            group.set_reshard_after_backward(last)
        match case.sharded_by.synced:
            case "last":
                group.set_requires_gradient_sync(last)
            case "scattered":
                group.set_requires_all_reduce(last)
            case "every":
                pass
    return nullcontext()
