"""What the script of a twin compares torch with: numbers of a reference of another make, or of the oracle."""

from typing import TYPE_CHECKING, cast

import numpy as np

from difftest.cases import numbers
from difftest.cases.layout import ALONE
from difftest.judge.elements import errors
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.stage import Stage

if TYPE_CHECKING:
    from difftest.judge.outcome import Trace
    from reports.reproducer.fault import Right

MOST_PLACES = 4
"""How many of the most wrong elements a script compares."""

ORACLE = "difftest's float64 oracle, by formulas"


def right_numbers(run: MeasuredRun, at: Key) -> "Right":
    """The right numbers of a tensor of a twin where torch is most wrong.

    They are those of a reference whose template declares that it `defines` them. A reference that is torch
    itself is compared with the oracle's.
    """
    from reports.reproducer.fault import Right
    from reports.reproducer.templates import declares
    from workers.references.definition import COMPUTED

    truth, _, held = run.beside(at)
    actual, reference = held.full(ALONE), cast("Trace", run.actual)
    error = np.nan_to_num(np.abs(errors(truth, actual)), nan=np.inf).ravel()
    places = np.argsort(-error, kind="stable")[:MOST_PLACES]
    defines = declares(run.backend, "defines")
    right = (actual if defines else truth).ravel()[places]
    results = run.expected.events.facts if run.case.model.is_program else {}
    shapes = {name: run.expected.steps[0][Stage.FORWARD, name].shape for name in results}
    return Right(
        places=tuple(map(int, places)),
        numbers=tuple(map(float, right)),
        maker=reference.environment[COMPUTED] if defines else ORACLE,
        weights={name: numbers.cotangent(run.case, name, shape) for name, shape in shapes.items()},
    )
