"""The stages of a pipeline as Python, and what its loss is multiplied by."""

from difftest.cases.case import Case
from difftest.cases.script_values import python


def stages(case: Case) -> str:
    """The first layer of every stage, and the one after its last, as a list of pairs."""
    layers = case.staged.layers(len(case.model.layers)) if case.staged else []
    return python([(layer.start, layer.stop) for layer in layers])


def stages_of_ranks(case: Case, ranks: int) -> list[list[int]]:
    """The stages of each rank of a pipeline, in order."""
    numbers = range(case.staged.stages if case.staged else 0)
    return [
        [n for n in numbers if case.staged and case.staged.rank_of(n, ranks) == at] for at in range(ranks)
    ]


def loss_factor(case: Case) -> str:
    """What the loss of a microbatch is multiplied by, as the rest of a product: averages divide it out."""
    factor = _averaged(case)
    return f" * {factor}" if factor > 1 else ""


def loss_divisor(case: Case) -> str:
    """As `loss_factor`, of the loss that is reported."""
    factor = _averaged(case)
    return f" / {factor}" if factor > 1 else ""


def _averaged(case: Case) -> int:
    microbatches = case.staged.microbatches if case.staged and case.staged.scaled else 1
    return microbatches * case.layout.data_ranks
