"""What tensor parallelism leaves whole, or cuts, of a case's layers and activations."""

from difftest.cases.case import Case
from difftest.cases.layers import walk


def convolutions(case: Case) -> set[str]:
    """The paths of the convolutions, for which DTensor has no rule."""
    return {path for path, layer in walk(case.model.layers) if not layer.DTENSOR_RULE}


def norms(case: Case) -> set[str]:
    """The paths of the norms, which `SequenceParallel` takes."""
    return {path for path, layer in walk(case.model.layers) if layer.MAGNITUDE == "rescales"}


def gathers(case: Case) -> bool:
    """Whether the model gives pieces of the sequence that have to be put together."""
    last = case.model.layers[-1]
    return case.cut_by.sequence and not (last.shapes() or last.borrows())
