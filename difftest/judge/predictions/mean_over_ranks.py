"""A reduction did not happen: every rank has its own share, and the mean over the ranks is right."""

import numpy as np

from difftest.cases.layout import local_slices, replica_groups
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.noise import THRESHOLD


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether ranks that should hold the same differ, and their mean is within rounding of the oracle's."""
    truth, floors, actual = run.beside(at)
    mesh, apart = run.case.layout.mesh, False
    for ranks in replica_groups(actual.placements, mesh):
        pieces = np.stack([np.asarray(actual.pieces[rank], np.float64) for rank in ranks])
        place = local_slices(actual.shape, actual.placements, mesh, ranks[0])
        if not (np.abs(pieces.mean(axis=0) - truth[place]) <= THRESHOLD * floors[place]).all():
            return False
        apart = apart or bool((np.abs(pieces - truth[place]) > THRESHOLD * floors[place]).any())
    return apart
