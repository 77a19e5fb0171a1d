"""Experts on the ranks of a mesh: its axes, and the parameters that have an entry for each expert."""

from collections.abc import Mapping

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.routed_experts import HIDDEN_DIMS, RoutedExperts
from difftest.cases.layout import Shard
from difftest.cases.model import Model

EXPERTS, SHARDS, TENSOR = "ep", "dp_shard", "tp"
"""The ranks of the first axis have some experts each, and the other axes cut their matrices."""


def routed(model: Model) -> Mapping[str, int]:
    """These parameters by full name, and the dim of their hidden width."""
    return {
        f"{path}.{name}": dim
        for path, layer in walk(model.layers)
        if isinstance(layer, RoutedExperts)
        for name, dim in HIDDEN_DIMS.items()
    }


def shards_others(case: Case) -> bool:
    """Whether what is not an expert is sharded over `ep`."""
    own, axis = routed(case.model), case.layout.mesh.names.index(EXPERTS)
    return any(isinstance(at[axis], Shard) for name, at in case.layout.parameters.items() if name not in own)
