"""Further inputs of a case: the same program with other numbers.

On XLA compiling a program takes longer than running it. A case with further inputs is compiled once, in the
processes that all of its inputs share, and every input is a case with a verdict of its own.
"""

import msgspec

from difftest.cases.case import Case, Regime
from difftest.cases.options import WHOLE
from generators.training import fitting_regimes


def with_input(case: Case, further: int, seed: int) -> Case:
    """`case` with its `further`th other input, from 1: other weights and batches, in each regime in turn.

    After the last regime the first comes again; `seed` makes the numbers others.
    """
    regimes = _regimes(case)
    regime = regimes[(regimes.index(case.data.regime) + further) % len(regimes)]
    return msgspec.structs.replace(case, data=msgspec.structs.replace(case.data, regime=regime), seed=seed)


def _regimes(case: Case) -> tuple[Regime, ...]:
    """The regimes that fit a case as it is.

    Exact, learnable and large numbers need a learning rate of their own, a user's module makes its numbers
    itself, and a collective of integers needs whole numbers.
    """
    regime = case.data.regime
    if case.model.own or case.data.learnable or regime in ("exact", "large"):
        return (regime,)
    fitting = (one for _, one in fitting_regimes(model=case.model, dtype=case.dtype) if one != "large")
    return tuple(one for one in fitting if one in WHOLE or not case.forms.integers)
