"""The predictions, one file each: the wrong numbers that a fault of a framework gives, as a model of it.

An entry of the ledger that `predicts` one is about a mismatch only where the numbers that were measured are
those of the model. Any other damage to the same tensor is another fault. To add a prediction, add a file here
that satisfies `Prediction`; there is no list to extend.
"""

from functools import cache
from typing import Protocol

import msgspec
import numpy as np

from difftest.ground import plugins
from difftest.judge.divergence import Divergence
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.outcome import Failure, Symptom


class Prediction(Protocol):
    """What a file in this folder declares."""

    def predicts(self, run: MeasuredRun, at: Key) -> bool:
        """Whether the fault gives the numbers that a finished run has at a tensor which differs."""


def names() -> tuple[str, ...]:
    """All predictions, sorted."""
    return plugins.names(__name__)


@cache
def load(name: str) -> Prediction:
    """The prediction called `name`; `UsageError` when there is none."""
    prediction: Prediction = plugins.load(__name__, name)
    return prediction


def with_predictions(run: MeasuredRun, shown: Divergence) -> Divergence:
    """A divergence of the run with the predictions that give its numbers; none for what is no mismatch."""
    at = (shown.step, shown.stage, shown.tensor)
    if shown.symptom is not Symptom.MISMATCH or isinstance(run.actual, Failure) or at not in run.measured:
        return shown
    with np.errstate(invalid="ignore", over="ignore"):  # a wrong run may hold infinities
        predicted = tuple(name for name in names() if load(name).predicts(run, at))
    return msgspec.structs.replace(shown, predicted=predicted)
