"""Another optimizer of `torch.optim` in place of the case's, by its loop, `foreach` or fused.

Equal to the formula of its documentation.
"""

from functools import partial
from typing import Any

import torch

from difftest.cases.features.optimizer import CLASSES as OPTIMIZERS
from difftest.cases.features.optimizer import FACTORED, Options, class_of, form
from workers.training.features import Hooks
from workers.training.formulas import ByFormula

CLASSES = {kind: getattr(torch.optim, class_of(kind)) for kind in (*OPTIMIZERS, FACTORED)}
READ_NUMBERS = ("asgd", FACTORED)
"""Those that read numbers in every step for their rate: ASGD its count of steps, Adafactor norms."""

COUNTS_MASKS = "rprop"
"""The one that assigns to masked elements, whose number torch_xla counts on the host."""

OF_THE_CASE = ("lr", "momentum", "weight_decay")
"""The arguments of a case's optimizers."""


def hooks(options: Options) -> Hooks:
    """With the arguments that torch gives it."""
    kind = partial(CLASSES[options.kind], **form(options))
    return Hooks(
        kind=lambda _optimizer: _instead(kind, options),
        leaves_device=options.kind in READ_NUMBERS,
        reads_values=options.kind == COUNTS_MASKS,
    )


def equal(options: Options) -> Hooks:
    """One tensor after another."""
    kind = partial(ByFormula, kind=options.kind)
    return Hooks(kind=lambda _optimizer: _instead(kind, options))


def _instead(kind: Any, options: Options) -> Any:  # noqa: ANN401  what is called as a class of optimizers is
    """`kind` at its own rate, without the arguments of the optimizer that it replaces."""

    def made(trained: list[Any], **arguments: Any) -> torch.optim.Optimizer:  # noqa: ANN401
        others = {name: value for name, value in arguments.items() if name not in OF_THE_CASE}
        optimizer: torch.optim.Optimizer = kind(trained, lr=options.rate, **others)
        return optimizer

    return made
