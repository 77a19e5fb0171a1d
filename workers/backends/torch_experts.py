"""Experts on the ranks of `ep`: rows travel by all-to-all, as torchtitan composes it.

What is not an expert is replicated over `ep` by `DistributedDataParallel`, or sharded by `fully_shard`. Over
`dp_shard` experts are sharded by `fully_shard`, and all else is replicated; over `tp` experts are cut along
their hidden width, and all else is the same on every rank.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.routed_experts import RoutedExperts
from difftest.cases.layout import Replicate, Shard
from difftest.cases.routed import EXPERTS, SHARDS, TENSOR, routed, shards_others
from workers import sides
from workers.backends import torch_ddp, torch_fsdp
from workers.torch import devices, process_groups
from workers.training.pieces import dtensor_placements, full
from workers.training.refusals import for_modules_only

if TYPE_CHECKING:
    from torch import Tensor, nn

    from workers.training.session import Session

TITLE = "expert parallelism"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = sides.TORCH
PRELOAD = process_groups.PRELOAD
processes = process_groups.processes
environment = process_groups.environment

MESHES = ((EXPERTS,), (SHARDS, EXPERTS), (EXPERTS, TENSOR), (SHARDS, EXPERTS, TENSOR))


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why the layout is not that of experts on the ranks of `ep`, or None."""
    layers = [layer for _, layer in walk(case.model.layers)]
    if not any(isinstance(layer, RoutedExperts) for layer in layers):
        return "needs experts; the model has none"
    if case.world_size == 1:
        return None
    if case.forms.optimizer_before:
        return "experts and wrappers replace the parameters: their optimizer is made after that"
    if any(layer.mixes_rows and not isinstance(layer, RoutedExperts) for layer in layers):
        return "every rank has rows of its own; in this model rows influence each other beside experts"
    return _no_mesh(case) or _misplaced(case) or _experts_misplaced(case)


def _no_mesh(case: Case) -> str | None:
    """Why the mesh cannot have experts and rows, or None."""
    names = case.layout.mesh.names
    if names not in MESHES:
        allowed = ", ".join(" x ".join(mesh) for mesh in MESHES)
        return f"places experts over {allowed}; the layout has other axes"
    if case.layout.batch != tuple(Replicate() if name == TENSOR else Shard(0) for name in names):
        return "rows are cut over dp_shard and ep, and whole over tp"
    return "ranks that gather rows need equally many" if case.part_rows % case.layout.data_ranks else None


def _misplaced(case: Case) -> str | None:
    """Which placements what is not an expert would have to have, or None."""
    own, cut = routed(case.model), SHARDS in case.layout.mesh.names
    whole = {name for name in case.layout.parameters if name not in own}
    dense = {tuple(torch_fsdp.by_axis(case, name).get(axis) for axis in (SHARDS, EXPERTS)) for name in whole}
    if any(
        not isinstance(torch_fsdp.by_axis(case, name).get(TENSOR, Replicate()), Replicate) for name in whole
    ):
        return "what is not an expert is whole over tp"
    if cut and dense - {(Replicate(), Shard(0))}:
        return "what is not an expert is replicated over dp_shard, and sharded along dim 0 over ep"
    if not cut and dense not in ({(None, Replicate())}, {(None, Shard(0))}, set()):
        return "what is not an expert is whole over ep, or sharded along dim 0, all of it alike"
    return None


def _experts_misplaced(case: Case) -> str | None:
    """Which placements experts would have to have, or None."""
    for name, along in routed(case.model).items():
        placed = torch_fsdp.by_axis(case, name)
        if placed[EXPERTS] != Shard(0) or placed.get(TENSOR, Shard(along)) != Shard(along):
            return "experts are apart over ep, and cut along their hidden width over tp"
        over = placed.get(SHARDS, Shard(0))
        if not isinstance(over, Shard):
            return "experts are sharded over dp_shard"
        if over.dim and torch_fsdp.uneven(case, name, over.dim):
            return "fully_shard cuts other dims than the first only evenly"
    return None


@contextmanager
def session(
    case: Case, rank: int, rendezvous: str, kind: process_groups.Devices = devices
) -> Iterator["Session"]:
    """Joins over the whole mesh and places experts first; on one rank the model is as it is."""
    with process_groups.joined(case, rank, rendezvous, kind=kind) as member:
        if case.world_size == 1:
            yield process_groups.local_session(member, lambda module: module.to(member.device))
            return
        from workers.torch.expert_parallel import ExpertRank

        placing = _Placing(member=member)
        joined = process_groups.local_session(member, placing.place, placing.quiet)
        own = ExpertRank(mesh=member.mesh, data_axes=case.layout.batch_axes)
        yield replace(joined, operators=replace(joined.operators, route=own.route), clip=placing.clip)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placing:
    """Places one rank's module. `routed` are its experts' parameters."""

    member: process_groups.Member
    routed: "list[nn.Parameter]" = field(default_factory=list)

    def place(self, module: "nn.Module") -> "nn.Module":
        """Experts over `ep` and `tp`, then `fully_shard` or DDP of what ranks have as a whole."""
        from workers.training.layers.routed_experts import ExpertMatrices

        member, mesh = self.member, self.member.mesh
        module = module.to(member.device)
        holders = [inner for inner in module.modules() if isinstance(inner, ExpertMatrices)]
        shards = SHARDS in (mesh.mesh_dim_names or ())
        for name in routed(member.case.model):
            self._apart(module, name)
        for holder in holders if shards else ():
            self._sharded(module, holder)
        self.routed.extend(parameter for holder in holders for parameter in holder.parameters())
        if not shards:
            for parameter in self.routed:
                parameter.register_hook(self._averaged)
        return self._around(module)

    def _apart(self, module: "nn.Module", name: str) -> None:
        """A parameter as a DTensor over the axes that cut experts."""
        from torch import nn
        from torch.distributed.tensor import distribute_tensor

        from workers.training.build import held

        path, _, own = name.rpartition(".")
        placed = torch_fsdp.by_axis(self.member.case, name)
        axes = tuple(axis for axis in placed if axis != SHARDS)
        tensor = distribute_tensor(
            held(module, name).detach(),
            self.member.mesh[axes],
            dtensor_placements(tuple(placed[axis] for axis in axes)),
        )
        module.get_submodule(path).register_parameter(own, nn.Parameter(tensor))

    def _sharded(self, module: "nn.Module", holder: "nn.Module") -> None:
        """Experts over `dp_shard`; each has the rows of all ranks, so its gradients are divided by them."""
        from torch.distributed.fsdp import fully_shard

        placement = torch_fsdp.placement_fn(self.member.case, module, SHARDS)
        sharded = fully_shard(holder, mesh=self.member.mesh[SHARDS], shard_placement_fn=placement)
        sharded.set_force_sum_reduction_for_comms(True)
        sharded.set_gradient_divide_factor(float(self.member.case.layout.data_ranks))

    def _averaged(self, gradient: "Tensor") -> "Tensor":
        """As the gradients of what has one rank's rows are; an expert has those of all."""
        return gradient / self.member.case.layout.data_ranks

    def _around(self, module: "nn.Module") -> "nn.Module":
        """What is not an expert: replicated over `ep`, or sharded, and then replicated over `dp_shard`."""
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel

        case, mesh = self.member.case, self.member.mesh
        axes = tuple(axis for axis in (SHARDS, EXPERTS) if axis in (mesh.mesh_dim_names or ()))
        own = {*self.routed}
        names = [name for name, parameter in module.named_parameters() if parameter in own]
        if len(axes) == 1 and not shards_others(case):
            if len(names) == len(case.layout.parameters):
                return module
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)  # noqa: SLF001
            return torch_ddp.wrap(case, module, group=mesh.get_group(EXPERTS))
        fully_shard(module, mesh=mesh[axes], ignored_params=None if SHARDS in axes else own)
        return module

    def quiet(
        self,
        module: "nn.Module",
        last: bool,  # noqa: FBT001  the session's signature
    ) -> AbstractContextManager[None]:
        """Reduces gradients in the last accumulation part."""
        from torch.nn.parallel import DistributedDataParallel

        if isinstance(module, DistributedDataParallel):
            return torch_ddp.quiet(self.member.case.replication, module, last)
        return torch_fsdp.quiet(self.member.case, module, last)

    def clip(self, parameters: "Iterator[nn.Parameter]", norm: float) -> None:
        """By the norm over experts and all else, which lie on different meshes: the sum of both squares."""
        import torch
        from torch.nn.utils import clip_grads_with_norm_, get_total_norm

        own = {*self.routed}
        groups: list[list[nn.Parameter]] = [[], []]
        for parameter in parameters:
            if parameter.grad is not None:
                groups[parameter in own].append(parameter)
        norms = [
            get_total_norm([one.grad for one in group if one.grad is not None]) for group in groups if group
        ]
        total = torch.linalg.vector_norm(torch.stack([full(one) for one in norms]))
        for group in groups:
            clip_grads_with_norm_(group, norm, total)
