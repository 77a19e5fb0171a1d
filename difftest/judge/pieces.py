"""Where a tensor is wrong: the error of the piece that each rank holds."""

import msgspec
import numpy as np

from difftest.cases.layout import local_slices
from difftest.judge import noise
from difftest.judge.divergence import Divergence
from difftest.judge.elements import errors
from difftest.judge.facts import Whole
from difftest.judge.measured import MeasuredRun
from difftest.judge.noise import FLOORS_MOST

MOST_RANKS = 64
"""The pieces of more ranks are not recorded."""


class Piece(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The piece of a tensor that one rank holds.

    `part` is what it holds of the tensor, from and to an index of each dim. Of `elements`, `wrong` are off by
    more than rounding. `ratio` is the greatest error in units of the rounding noise.
    """

    rank: Whole
    part: tuple[tuple[Whole, Whole], ...]
    elements: Whole
    wrong: Whole
    ratio: float


def pieces(run: MeasuredRun, divergence: Divergence) -> tuple[Piece, ...]:
    """The pieces of the tensor that diverges, by rank; empty where it was not measured on several ranks."""
    at = (divergence.step, divergence.stage, divergence.tensor)
    if at not in run.measured or not 1 < run.case.world_size <= MOST_RANKS:
        return ()
    truth, floors, actual = run.beside(at)
    limit = 0.0 if run.measured[at].exact else noise.THRESHOLD
    measured = []
    for rank, piece in sorted(actual.pieces.items()):
        own = local_slices(actual.shape, actual.placements, run.case.layout.mesh, rank)
        ratios = np.nan_to_num(
            noise.in_floors(errors(truth[own], piece), floors[own]), nan=FLOORS_MOST, posinf=FLOORS_MOST
        )
        measured.append(
            Piece(
                rank=rank,
                part=tuple((each.start, each.stop) for each in own),
                elements=int(ratios.size),
                wrong=int(np.count_nonzero(ratios > limit)),
                ratio=float(ratios.max(initial=0.0)),
            )
        )
    return tuple(measured)
