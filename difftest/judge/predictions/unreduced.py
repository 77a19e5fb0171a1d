"""A reduction did not happen: every rank has its own share, and the shares' mean or their sum is right.

It is the sum where ranks divide their losses by the rows of the whole batch.
"""

import numpy as np

from difftest.cases.layout import local_slices, replica_groups
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.stage import Stage


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether ranks that should hold the same differ, and what they hold adds up to the oracle's.

    Only gradients are summed: parameters are more than the updates that the ranks made.
    """
    return _add_up(run, at, summed=False) or (at[1] is Stage.BACKWARD and _add_up(run, at, summed=True))


def _add_up(run: MeasuredRun, at: Key, *, summed: bool) -> bool:
    truth, floors, actual = run.beside(at)
    mesh, apart = run.case.layout.mesh, False
    for ranks in replica_groups(actual.placements, mesh):
        pieces = np.stack([np.asarray(actual.pieces[rank], np.float64) for rank in ranks])
        place = local_slices(actual.shape, actual.placements, mesh, ranks[0])
        whole = pieces.sum(axis=0) if summed else pieces.mean(axis=0)
        if not (np.abs(whole - truth[place]) <= THRESHOLD * floors[place]).all():
            return False
        apart = apart or bool((np.abs(pieces - truth[place]) > THRESHOLD * floors[place]).any())
    return apart
