"""What is drawn of a program beside its operators and its layout: the dtype and the regime."""

import functools
from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case, DType, Regime
from difftest.cases.layout import Layout
from difftest.cases.model import Model
from generators.chances import weighted
from generators.operators.programs import assembled
from generators.operators.table import entries

MOST_SEED = 2**63 - 1
DTYPES: Mapping[DType, int] = {"float32": 6, "bfloat16": 2, "float16": 1, "float64": 1}
REGIMES: Mapping[Regime, int] = {
    "normal": 8,
    "ties": 1,
    "zeros": 1,
    "signed_zeros": 1,
    "offset": 1,
    "nonfinite": 1,
    "kinks": 1,
    "large": 1,
    "tiny": 1,
    "denormal": 1,
}
"""The weights of what is drawn."""


def draw_program(draw: st.DrawFn, *, path: str, model: Model, layout: Layout) -> Case:
    """The case of a drawn program: a dtype that all of its operators take, and a regime that none refuses."""
    names = [layer.operator for layer in model.operators.values()]
    allowed = set(DTYPES).intersection(*map(_dtypes, names))
    dtype = draw(_weighted(tuple(one for one in DTYPES if one in allowed)))
    refused = frozenset[str]().union(*map(_refused, names))
    regime = draw(weighted(*((weight, one) for one, weight in REGIMES.items() if one not in refused)))
    seed = draw(st.integers(0, MOST_SEED))
    return assembled(model, path=path, layout=layout, dtype=dtype, regime=regime, seed=seed)


@functools.cache
def _weighted(dtypes: tuple[DType, ...]) -> SearchStrategy[DType]:
    return weighted(*((DTYPES[dtype], dtype) for dtype in dtypes))


@functools.cache
def _refused(name: str) -> frozenset[str]:
    """The regimes with whose values some sample of the entry raises."""
    return frozenset(regime for sample in entries()[name].samples for regime in sample.refused)


@functools.cache
def _dtypes(name: str) -> frozenset[str]:
    """The dtypes that every sample of the entry takes."""
    return frozenset({"float32"}).union(
        frozenset.intersection(*(frozenset(sample.dtypes) for sample in entries()[name].samples))
    )
