"""The features of training that a case has: `difftest.cases.features` says what can be drawn."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st
from msgspec import structs

from difftest.cases.case import Case
from difftest.cases.feature import choices
from difftest.cases.features import names
from difftest.cases.options import Feature
from generators.chances import drawn_from, sometimes, weighted


@st.composite
def features(draw: st.DrawFn, *, case: Case) -> tuple[Feature, ...]:
    """One or two features that have something to do in `case`, each beside the other too."""
    fitting = [name for name in names() if fits(name, case)]
    first = draw(st.sampled_from(fitting))
    beside = [name for name in fitting if name != first and together(first, name, case)]
    chosen = [first, draw(st.sampled_from(beside))] if draw(sometimes(one_in=2)) and beside else [first]
    return tuple(drawn(draw, name, case) for name in chosen)


def fits(name: str, case: Case) -> bool:
    """Whether a feature has something to do in `case`."""
    return choices(name, case) is not None


def together(one: str, other: str, case: Case) -> bool:
    """Whether each has something to do beside the other."""
    return all(
        fits(name, structs.replace(case, features=(Feature(name=beside),)))
        for name, beside in ((one, other), (other, one))
    )


def drawn(draw: st.DrawFn, name: str, case: Case) -> Feature:
    """A feature that fits, with its options."""
    return Feature(name=name, options=draw(drawn_from(choices(name, case) or {})))


@st.composite
def with_features(
    draw: st.DrawFn, *, case: Case, often: Sequence[tuple[int, str]], beside: Iterable[str]
) -> Case:
    """The case with one feature of `often`, by weight, and in every second case with one of `beside`."""
    first = draw(weighted(*((weight, name) for weight, name in often if fits(name, case))))
    others = [name for name in beside if name != first and fits(name, case) and together(first, name, case)]
    names = [first, draw(st.sampled_from(others))] if draw(st.booleans()) and others else [first]
    return structs.replace(case, features=tuple(drawn(draw, name, case) for name in names))
