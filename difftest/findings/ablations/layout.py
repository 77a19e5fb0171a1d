"""Less sharding: one device, a mesh of one rank with the same placements, or only the batch sharded."""

from collections.abc import Iterator

import msgspec

from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Replicate, replicated
from difftest.findings.ablations import Ablation, Baseline

ORDER = 0


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """On a mesh of one rank a wrapper's own code still runs, but no collective does anything."""
    case = baseline.case
    yield baseline.changed("it runs on one device, unsharded", case=case.unsharded())
    if case.world_size > 1:
        yield baseline.changed("every mesh axis has one rank", case=_one_rank(case))
    if any(
        placement != Replicate() for placements in case.layout.parameters.values() for placement in placements
    ):
        yield baseline.changed("every parameter is replicated", case=_replicated(case))


def _one_rank(case: Case) -> Case:
    mesh = Mesh(tuple((name, 1) for name in case.layout.mesh.names))
    return msgspec.structs.replace(case, layout=msgspec.structs.replace(case.layout, mesh=mesh))


def _replicated(case: Case) -> Case:
    parameters = dict.fromkeys(case.layout.parameters, replicated(case.layout.mesh))
    return msgspec.structs.replace(case, layout=msgspec.structs.replace(case.layout, parameters=parameters))
