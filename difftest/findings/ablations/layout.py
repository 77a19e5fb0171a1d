"""Less sharding: on one device, on a mesh of one rank with every placement kept, with nothing but the batch cut."""

from collections.abc import Iterator

import msgspec

from difftest.cases.case import Case
from difftest.cases.layout import Mesh, Replicate, replicated
from difftest.findings.ablations import Ablation, Asked

ORDER = 0


def ablations(asked: Asked) -> Iterator[Ablation]:
    """A wrapper's own code runs on one rank too, where no collective does anything."""
    case = asked.case
    yield asked.changed("it runs on one device, unsharded", case=case.unsharded())
    if case.world_size > 1:
        yield asked.changed("every mesh axis has one rank", case=_one_rank(case))
    if any(
        placement != Replicate() for placements in case.layout.parameters.values() for placement in placements
    ):
        yield asked.changed("every parameter is replicated", case=_replicated(case))


def _one_rank(case: Case) -> Case:
    mesh = Mesh(tuple((name, 1) for name in case.layout.mesh.names))
    return msgspec.structs.replace(case, layout=msgspec.structs.replace(case.layout, mesh=mesh))


def _replicated(case: Case) -> Case:
    parameters = dict.fromkeys(case.layout.parameters, replicated(case.layout.mesh))
    return msgspec.structs.replace(case, layout=msgspec.structs.replace(case.layout, parameters=parameters))
