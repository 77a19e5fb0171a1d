"""The gradient of max pooling is right in the last shard of a dim alone, as XLA leaves it in SPMD."""

from difftest.cases.layout import Shard, local_slices
from difftest.judge.damage import wrong_ranks
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.predictions import _calls
from difftest.judge.stage import Stage

POOLING = "max_pool"


def predicts(run: MeasuredRun, at: Key) -> bool:
    """Whether every rank with a wrong piece has another shard than the last one."""
    call = _calls.call_at(run, at)
    if at[1] is not Stage.BACKWARD or not call or POOLING not in call.function:
        return False
    truth, floors, actual = run.beside(at)
    mesh = run.case.layout.mesh
    wrong = wrong_ranks(truth, floors, actual, mesh)
    dims = {one.dim for one in actual.placements if isinstance(one, Shard)}
    for rank in actual.pieces:
        place = local_slices(actual.shape, actual.placements, mesh, rank)
        if all(place[dim].stop == actual.shape[dim] for dim in dims) and rank in wrong:
            return False
    return bool(wrong and dims)
