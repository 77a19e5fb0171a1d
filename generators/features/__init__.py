"""The features of training, a file each: the options with which a case can have it.

To add a feature, add a file here that satisfies `Drawn`, and one of the same name in
`workers.training.features` that does it; there is no list to extend.
"""

from typing import Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import structs

from difftest.cases.case import Case
from difftest.cases.options import Feature, FeatureOption
from difftest.ground import plugins
from generators.chances import sometimes


class Drawn(Protocol):
    """What a file in this folder declares."""

    def options(self, *, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
        """The options of the feature in `case`, or None where it has nothing to do there.

        `case` may have another feature. One of two says so if it cannot be beside the other.
        """


def load(name: str) -> Drawn:
    """The feature called `name`; `UsageError` when there is none."""
    feature: Drawn = plugins.load(__name__, name)
    return feature


def names() -> tuple[str, ...]:
    """All features, sorted."""
    return plugins.names(__name__)


def has(case: Case, *names: str) -> bool:
    """Whether `case` has one of these features already."""
    return any(feature.name in names for feature in case.training_features)


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
    return load(name).options(case=case) is not None


def together(one: str, other: str, case: Case) -> bool:
    """Whether each has something to do beside the other."""
    return all(
        fits(name, structs.replace(case, features=(Feature(name=beside),)))
        for name, beside in ((one, other), (other, one))
    )


def drawn(draw: st.DrawFn, name: str, case: Case) -> Feature:
    """A feature that fits, with its options."""
    options = load(name).options(case=case)
    assert options is not None  # noqa: S101  it fits
    return Feature(name=name, options=draw(options))
