"""Less sharding: one device, a mesh of one rank with the same placements, or only the batch sharded."""

from collections.abc import Iterator

from difftest.cases.layout import Mesh, Replicate, replicated
from difftest.findings.ablations import Ablation, Baseline

ORDER = 0


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """On a mesh of one rank a wrapper's own code still runs, but no collective does anything."""
    case = baseline.case
    yield baseline.changed("it runs on one device, unsharded", case=case.unsharded())
    if case.world_size > 1:
        mesh = Mesh(tuple((name, 1) for name in case.layout.mesh.names))
        yield baseline.changed("every mesh axis has one rank", case=case.changed("layout", mesh=mesh))
    if any(
        placement != Replicate() for placements in case.layout.parameters.values() for placement in placements
    ):
        parameters = dict.fromkeys(case.layout.parameters, replicated(case.layout.mesh))
        whole = case.changed("layout", parameters=parameters)
        yield baseline.changed("every parameter is replicated", case=whole)
