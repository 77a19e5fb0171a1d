"""How simple a case is: every simplification lowers this measure, so that a reduction ends.

Tuples of counts are compared from the left: one rank less counts more than any number of layers, one layer
less more than any number of options, and so on.
"""

from collections.abc import Iterable, Iterator

from difftest.cases.case import Case
from difftest.cases.evenness import uneven_cuts
from difftest.cases.layers import walk
from difftest.cases.layout import Shard
from difftest.cases.resets import option_changes
from difftest.reduce.candidate import Candidate

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "own")
REGIMES = ("normal", "exact")
"""From the simplest; all other regimes rank alike."""


def measure(case: Case) -> tuple[int, ...]:
    """How simple a case is, as a tuple of counts; the smaller, the simpler.

    Ranks, mesh axes, steps, layers weighted by kind, features and options, sharded placements, uneven ones,
    sizes.
    """
    return tuple(_counts(case))


def is_less(case: Case, most: tuple[int, ...]) -> bool:
    """Whether the measure of a case is less than `most`; nothing is counted after the first difference."""
    pairs = zip(_counts(case), most, strict=True)
    return next((count < other for count, other in pairs if count != other), False)


def simpler(case: Case, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates that are simpler than `case`: a smaller size may add an uneven cut."""
    most = measure(case)
    return (candidate for candidate in candidates if is_less(candidate[1], most))


def _counts(case: Case) -> Iterator[int]:
    yield case.world_size
    yield len(case.layout.mesh.axes)
    yield case.training.steps
    layers = [layer for _, layer in walk(case.model.layers)]
    yield sum(layer.complexity for layer in layers)
    options = sum(1 for _ in option_changes(case))
    stages = case.staged.stages + case.staged.microbatches if case.staged else 0
    yield sum(len(layer.removable()) for layer in layers) + sum(_training(case)) + options + stages
    yield sum(
        isinstance(p, Shard)
        for placed in (case.layout.batch, *case.layout.parameters.values())
        for p in placed
    )
    yield uneven_cuts(case)
    yield sum(layer.extent for layer in layers) + case.data.batch + case.model.sequence


def _training(case: Case) -> Iterator[int]:
    training, data = case.training, case.data
    yield OPTIMIZERS.index(training.optimizer) if training.optimizer in OPTIMIZERS else 0
    yield training.accumulation
    yield from (
        training.clip_norm is not None,
        training.loss != "mse",
        training.loss == "first_cotangent",
        training.checkpointing,
        case.dtype != "float32",
    )
    yield REGIMES.index(data.regime) if data.regime in REGIMES else len(REGIMES)
    yield from (data.ignored > 0.0, data.learnable)
