"""Changes of a DTensor's placements in the middle of a model, on either side.

An activation is moved only to `Shard` and `Replicate`. A partial sum comes back as a replica, because a sum
cannot be split into its terms again. Its gradient is a replica too, which is an argument of `to_local` unless
the case's spelling leaves it out.
DTensors take no part in collectives.
"""

from typing import TYPE_CHECKING, cast

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.options import Spelling
from workers.training import refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement


def refusal(case: Case) -> str | None:
    """Why DTensors cannot express `case`, or None."""
    if case.world_size > 1 and any(layer.BETWEEN_RANKS for _, layer in walk(case.model.layers)):
        return "a collective is between the ranks' own tensors; a DTensor is the whole"
    if case.forms.optimizer_before:
        return "DTensors replace the parameters: their optimizer is made after that"
    return refusals.stages(case) or refusals.own_batches(case)


def mover(mesh: "DeviceMesh", forms: Spelling) -> "Callable[[Tensor, Redistribute], Tensor]":
    """`workers.training.operators.move` for DTensors on `mesh`.

    A mesh of fewer axes takes the first dims; one of more axes replicates over the others. `forms` say how
    activations leave DTensors.
    """

    def move(tensor: "Tensor", spec: Redistribute) -> "Tensor":
        from torch.distributed.tensor import Replicate, Shard

        dims = (*spec.dims, *[None] * mesh.ndim)[: mesh.ndim]
        before = [
            Replicate() if placement.is_partial() else placement
            for placement in cast("DTensor", tensor).placements
        ]
        here = _passed(cast("DTensor", tensor), mesh, spec, None if forms.bare_to_local else before, forms)
        there = here.redistribute(mesh, [Replicate() if dim is None else Shard(dim) for dim in dims])
        return there.redistribute(mesh, before)

    return move


def _passed(
    tensor: "DTensor",
    mesh: "DeviceMesh",
    spec: Redistribute,
    gradients: "list[Placement] | None",
    forms: Spelling,
) -> "DTensor":
    """The tensor after it has passed through the function that `spec` names; its `gradients` are told."""
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor.experimental import local_map

    match spec.by:
        case "redistribute":
            return tensor
        case "full_tensor":
            return DTensor.from_local(tensor.full_tensor(), mesh, [Replicate()] * mesh.ndim, run_check=False)
        case "to_local" if forms.local_map:
            there = list(tensor.placements)
            input_gradients = None if gradients is None else (gradients,)
            mapped = local_map(lambda local: local * 1, there, (there,), input_gradients, device_mesh=mesh)
            return cast("DTensor", mapped(tensor))
        case "to_local":
            local = tensor.to_local(grad_placements=gradients)
            return DTensor.from_local(
                local, mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
            )
