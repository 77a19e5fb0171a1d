"""The blind share: in which part of the cases a wrong number would be called known, whatever it is.

An entry of the ledger that asks for nothing but facts of the case hides every other fault that shows in the
same place. So for each place of a case (a step, a stage, a tensor) and each check, mismatches of every nature
and of very different sizes are made up. The place is blind where entries match them all. A case's share is
that of its blind places, in the stage in which it is greatest, and that of many cases is their mean. In a
program a place is a tensor of an operator, which an entry may name.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from difftest.cases.case import Case
from difftest.findings.facts import facts
from difftest.findings.ledger import Entry, Ledger, written
from difftest.judge import checks, damage
from difftest.judge.divergence import Divergence
from difftest.judge.facts import NumbersFacts, RemarkFacts
from difftest.judge.fingerprint import DIGEST_LENGTH, Fingerprint
from difftest.judge.outcome import Symptom
from difftest.judge.programs import operator_of
from difftest.judge.stage import Stage
from difftest.records.blind import BlindShares

MOST = 0.02
"""The greatest blind share that the project's own ledger may have."""

NATURES = ("", "ranks part", "not finite", *damage.WORDS)
SIZES = (
    (12.0, NumbersFacts(differing=1, elements=6, greatest=1.3e-09, scale=1.0, floor=1e-10)),
    (1e30, NumbersFacts(differing=6, elements=6, greatest=7e20, scale=1.0, floor=1e-10)),
)
"""The ratio and the facts of a small and of a great mismatch."""

APART = (
    "ranks [1] differ from rank 0 by up to 1.3e-09; ranks [0, 1] must hold the same bits",
    "ranks [1, 2, 3] differ from rank 0 by up to 7e+20; ranks [0, 1, 2, 3] must hold the same bits",
)
"""What the remarks on a few and on many ranks that differ say."""


class BackendCheck(NamedTuple):
    """A backend and a check, by name."""

    backend: str
    check: str


def blind_shares(ledger: Ledger, cases: Iterable[tuple[Case, Collection[str]]], today: date) -> BlindShares:
    """The shares over `cases` with the names of the backends that can run each."""
    shares = BlindShares()
    for case, backends in cases:
        for backend, by_check in blind_places(ledger, case, backends, today).items():
            shares.count(backend, by_check)
    return shares


def blind_places(
    ledger: Ledger, case: Case, backends: Iterable[str], today: date
) -> dict[str, dict[str, float]]:
    """The share of a case's places that are blind, by backend and check.

    It is that of the stage in which it is greatest.
    """
    actual = facts(case)
    # What an entry asks for beside this, a run alone can show
    wide = (entry for entry in ledger.counting(today) if not (entry.predicts or entry.decided_by))
    about = [entry for entry in wide if entry.covers(case, actual=actual)]
    compared = {
        name: _grouped(check.TRAITS.places(case))
        for name, check in checks.load_all().items()
        if check.TRAITS.places
    }
    return {
        backend: {
            check: _greatest(about, case, BackendCheck(backend, check), by_stage)
            for check, by_stage in compared.items()
            if by_stage
        }
        for backend in backends
    }


def _grouped(places: Iterable[tuple[Stage, str]]) -> dict[Stage, list[str]]:
    tensors: dict[Stage, list[str]] = defaultdict(list)
    for stage, tensor in places:
        tensors[stage].append(tensor)
    return tensors


def _greatest(
    entries: Iterable[Entry], case: Case, pair: BackendCheck, by_stage: Mapping[Stage, Collection[str]]
) -> float:
    """The share of the stage in which most places are blind to a backend and check."""
    ours = [entry for entry in entries if _is_of(entry.fingerprint, pair)]
    return max(_share(ours, case, pair, *stage) for stage in by_stage.items()) if ours else 0.0


def _share(
    entries: Collection[Entry], case: Case, pair: BackendCheck, stage: Stage, tensors: Collection[str]
) -> float:
    """The share of the places of one stage in which any mismatch has one of the entries of a pair."""
    shown = Divergence(
        backend=pair.backend,
        side="",
        path=case.path,
        check=pair.check,
        symptom=Symptom.MISMATCH,
        stage=stage,
    )
    steps = range(case.training.steps)
    named = {tensor: operator_of(case, stage, tensor) if case.model.is_program else "" for tensor in tensors}
    places = [
        replace(shown, step=step, tensor=tensor, operator=named[tensor])
        for step, tensor in product(steps, tensors)
    ]
    hidden = sum(all(_is_hidden(entries, mismatch) for mismatch in _mismatches(place)) for place in places)
    return hidden / len(places)


@cache
def _is_of(pattern: str, pair: BackendCheck) -> bool:
    """Whether a pattern of fingerprints has all mismatches of a backend and check, and not one alone."""
    any_digest = "0" * DIGEST_LENGTH
    named = Fingerprint(written(pattern, pair.backend), pair.check, Symptom.MISMATCH, any_digest)
    return fnmatchcase(str(named), pattern)


def _mismatches(place: Divergence) -> Iterator[Divergence]:
    """Mismatches of every nature and size at one place."""
    of_ranks = [(None, RemarkFacts(remark=remark)) for remark in APART]
    sizes = of_ranks if checks.load(place.check).TRAITS.compares_ranks else SIZES
    for nature, (ratio, size) in product(NATURES, sizes):
        late = "after the first step" if place.step else ""
        words = ", ".join(filter(None, (place.operator, nature, late)))
        yield replace(place, nature=words, facts=size, ratio=ratio)


def _is_hidden(entries: Iterable[Entry], shown: Divergence) -> bool:
    return any(entry.names(shown.operator) and entry.resembles(shown) for entry in entries)
