"""The parameters of a model that have an entry for each expert."""

from collections.abc import Mapping

from difftest.cases.layers import walk
from difftest.cases.layers.routed_experts import HIDDEN_DIMS, RoutedExperts
from difftest.cases.model import Model


def routed(model: Model) -> Mapping[str, int]:
    """These parameters by full name, and the dim of their hidden width."""
    return {
        f"{path}.{name}": dim
        for path, layer in walk(model.layers)
        if isinstance(layer, RoutedExperts)
        for name, dim in HIDDEN_DIMS.items()
    }
