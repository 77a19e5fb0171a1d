"""Planted faults of recurrences."""

from torch import Tensor

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.building_block import BuildingBlock
from workers.faults import BACKEND, of_blocks
from workers.training.blocks import linear_recurrence
from workers.training.blocks.linear_recurrence import Rows
from workers.training.session import Session

MADE_ALONE = 2
"""The first positions, whose states are joined of at most two steps."""


def _associative(case: Case) -> bool:
    blocks = (layer for _, layer in walk(case.model.layers) if isinstance(layer, BuildingBlock))
    functions = (one.arguments["function"] for one in blocks if one.block == "linear_recurrence")
    return case.model.sequence > MADE_ALONE and any(function != "scan" for function in functions)


@of_blocks(
    about="steps that are joined forget by how much the first one decays",
    blame=BACKEND,
    reaches=_associative,
    backends=("torch_ddp",),
)
def decay_forgotten(session: Session, _case: Case, _rank: int) -> Session:
    """From the third position on."""

    def joined(left: Rows, right: Rows) -> tuple[Tensor, Tensor]:
        return right[0], right[0] * left[1] + right[1]

    linear_recurrence._joined = joined  # noqa: SLF001
    return session
