"""The features of training, a file each: the options with which a case can have it.

To add a feature, add a file here that satisfies `Drawn`, and one of the same name in
`workers.training.features` that does it; there is no list to extend.
"""

from typing import Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest import plugins
from difftest.cases.case import Case
from difftest.cases.options import Feature, FeatureOption

MOST_FEATURES = 2


class Drawn(Protocol):
    """What a file in this folder declares."""

    def options(self, *, case: Case) -> SearchStrategy[dict[str, FeatureOption]] | None:
        """The options of the feature in `case`, or None where it has nothing to do there."""


def load(name: str) -> Drawn:
    """The feature called `name`; `UsageError` when there is none."""
    feature: Drawn = plugins.load(__name__, name)
    return feature


def names() -> tuple[str, ...]:
    """All features, sorted."""
    return plugins.names(__name__)


@st.composite
def features(draw: st.DrawFn, *, case: Case) -> tuple[Feature, ...]:
    """One or two features that have something to do in `case`."""
    fitting = {name: options for name in names() if (options := load(name).options(case=case)) is not None}
    chosen = draw(st.lists(st.sampled_from(sorted(fitting)), min_size=1, max_size=MOST_FEATURES, unique=True))
    return tuple(Feature(name=name, options=draw(fitting[name])) for name in chosen)
