"""Planted faults of context parallelism: what pieces of a sequence give each other, and how they add up."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor
from torch.distributed import _functional_collectives
from torch.distributed.device_mesh import DeviceMesh

from difftest.cases.case import Case
from workers.faults import SHARDING, Plant, PlantedFault, planted
from workers.faults.features import replacing
from workers.torch import ring as of_sequences
from workers.training.session import Session


def _of_pieces(*, about: str, reaches: Callable[[Case], bool]) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for the cases of the path `context_parallel` that have several pieces."""
    return planted(
        paths=("context_parallel",),
        about=about,
        backends=("torch_cp_gathered",),
        blame=SHARDING,
        reaches=lambda case: case.layout.mesh.size(of_sequences.AXIS) > 1 and reaches(case),
    )


@_of_pieces(
    about="keys and values of other ranks get no gradient",
    reaches=lambda case: bool(case.model.flash_attentions),
)
def gathered_without_gradient(session: Session, _case: Case, _rank: int) -> Session:
    """The collective that gathers them is the one that autograd does not know; a rank's own stay."""

    def gather(tensor: Tensor, dim: int, ring: DeviceMesh) -> Tensor:
        piece, first = tensor.shape[dim], ring.get_local_rank() * tensor.shape[dim]
        whole = _functional_collectives.all_gather_tensor(tensor.detach(), dim, ring).clone()
        whole.narrow(dim, first, piece).copy_(tensor)
        return whole

    return replacing(session, _functional_collectives, "all_gather_tensor_autograd", gather)


@_of_pieces(
    about="every rank masks the future as the rank of the first piece",
    reaches=lambda case: any(layer.causal for layer in case.model.flash_attentions.values()),
)
def future_of_the_first_piece(session: Session, _case: Case, _rank: int) -> Session:
    """The mask forgets where a rank's piece begins."""
    return replacing(session, of_sequences, "first_position", lambda _ring, _piece: 0)


@_of_pieces(about="gradients are averaged along the sequence, too", reaches=lambda _: True)
def averaged_along_the_sequence(session: Session, case: Case, _rank: int) -> Session:
    """The loss is multiplied by the number of ranks that have other rows, and not by that of pieces."""
    return replace(session, scale=session.scale / case.layout.mesh.size(of_sequences.AXIS))
