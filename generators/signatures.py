"""Which features of a case lead to which operators, as measured: the data of the explorer.

A thing that was reached, as an operator in the backward or a rule of DTensor, has a signature: the rarest of
the features that all cases have which reached it. A case with all features of a signature probably reaches
the thing. `tools/exploration.py` writes the data from what a campaign covered.
"""

import functools
from collections import Counter
from collections.abc import Collection, Iterable
from importlib import resources
from typing import TypeAlias

import msgspec

FILE = "signatures.json"
MOST_FEATURES = 3
"""Of more features that all cases of a thing have, most have them by chance."""

Features: TypeAlias = frozenset[str]


class Signature(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Features, sorted, and the number of things that cases with all of them reach."""

    features: tuple[str, ...]
    things: int


def signatures(cases: Iterable[tuple[Features, Collection[str]]]) -> tuple[Signature, ...]:
    """The signatures of what some cases reached, from the features and the things of each; sorted.

    What all cases reached has none.
    """
    common, frequency = dict[str, Features](), Counter[str]()
    for features, things in cases:
        frequency.update(features)
        for thing in things:
            common[thing] = common.get(thing, features) & features
    counts = Counter(
        tuple(sorted(sorted(own, key=lambda feature: (frequency[feature], feature))[:MOST_FEATURES]))
        for own in common.values()
    )
    return tuple(Signature(features, things) for features, things in sorted(counts.items()) if features)


def expected(features: Features) -> frozenset[Signature]:
    """What a case with these features probably reaches."""
    return frozenset(signature for required, signature in _measured() if required <= features)


@functools.cache
def _measured() -> tuple[tuple[Features, Signature], ...]:
    content = resources.files(__package__).joinpath(FILE).read_bytes()
    signatures = msgspec.json.decode(content, type=tuple[Signature, ...])
    return tuple((frozenset(signature.features), signature) for signature in signatures)
