"""Copies are bit-equal: ranks that hold the same piece of a parameter or gradient hold the same bits."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from difftest.cases.case import Case
from difftest.cases.layout import replica_groups
from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Sharded, Symptom, Trace
from difftest.judge.spoiled import Damage, holder, last, nudged, tensor_at
from difftest.judge.stage import Stage


def _parted(case: Case, right: Trace) -> Trace | None:
    key = None if case.model.is_program else last(right, Stage.BACKWARD)
    rank = holder(right, key) if key else None
    if key is None or rank is None:
        return None
    groups = replica_groups(tensor_at(right, key).placements, case.layout.mesh)
    copied = any(rank in ranks and len(ranks) > 1 for ranks in groups)
    return nudged(right, key, rank) if copied else None


ORDER = 2
TRAITS = Traits(
    uses_numbers=True,
    compares_ranks=True,
    scripts={Symptom.MISMATCH: "replicas"},
    places=lambda case: product((Stage.BACKWARD, Stage.UPDATE), case.model.parameters()),
    damage=Damage(words="a rank with other bits", spoil=_parted),
)


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor, with its first group of ranks that disagree, and by how much."""
    for key, tensor in run.tensors():
        if key[1] is Stage.FORWARD or tensor.misfits(run.case.layout.mesh):
            continue
        for ranks in replica_groups(tensor.placements, run.case.layout.mesh):
            pieces, first = tensor.pieces, ranks[0]
            if odd := [
                rank for rank in ranks if not np.array_equal(pieces[first], pieces[rank], equal_nan=True)
            ]:
                finite = all(np.isfinite(tensor.pieces[rank]).all() for rank in ranks)
                nature = "" if finite else "not finite"
                wrong = RemarkFacts(remark=_describe(tensor, ranks, odd))
                yield run.tensor_divergence("replicas", Symptom.MISMATCH, key, wrong, nature=nature)
                break


def _describe(tensor: Sharded, ranks: Sequence[int], odd: Sequence[int]) -> str:
    gap = max(float(np.abs(tensor.pieces[rank] - tensor.pieces[ranks[0]]).max()) for rank in odd)
    return (
        f"ranks {list(odd)} differ from rank {ranks[0]} by up to {gap:.4g}; "
        f"ranks {list(ranks)} must hold the same bits"
    )
