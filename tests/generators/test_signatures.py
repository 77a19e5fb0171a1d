"""Signatures: what was measured of features and what they lead to, and the explorer that scores by it."""

import pytest
from samples import a_case, tensor_parallel_case

from generators import explore
from generators.explore import Walk, features, pairs
from generators.signatures import Signature, signatures

GELU, EVEN, TWO = "Activation gelu", "placed S0", "2 ranks"


def test_a_thing_has_the_features_that_all_its_cases_share_and_what_all_cases_reach_has_none() -> None:
    cases = [
        (frozenset({GELU, TWO}), {"gelu", "mm"}),
        (frozenset({GELU, EVEN}), {"gelu", "mm", "rule"}),
        (frozenset({EVEN, TWO}), {"mm", "rule"}),
    ]
    assert signatures(cases) == (Signature((GELU,), 1), Signature((EVEN,), 1))


def test_of_many_shared_features_the_rarest_are_kept() -> None:
    common = [(frozenset({"a", "b", "c"}), set[str]())] * 3
    once = (frozenset({"a", "b", "c", "d", "e"}), {"thing"})
    assert signatures([*common, once]) == (Signature(("a", "d", "e"), 1),)


def test_things_with_one_signature_count_together() -> None:
    assert signatures([(frozenset({"a"}), {"x", "y"}), (frozenset({"b"}), {"z"})]) == (
        Signature(("a",), 2),
        Signature(("b",), 1),
    )


def by_measurement(patch: pytest.MonkeyPatch, *measured: Signature) -> None:
    patch.setattr(
        explore,
        "expected",
        lambda own: frozenset(one for one in measured if {*one.features} <= own),
    )


def test_a_case_that_probably_reaches_more_is_chosen_and_then_one_that_reaches_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, cut = a_case(), tensor_parallel_case()
    only_cut = min(features(cut) - features(plain))
    only_plain = min(features(plain) - features(cut))
    by_measurement(monkeypatch, Signature((only_cut,), 5), Signature((only_plain,), 2))
    walk = Walk()
    for _ in range(2):
        walk.choose([plain, cut])
    assert walk.chosen == [cut, plain]


def test_where_nothing_was_measured_pairs_of_features_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = [a_case(), tensor_parallel_case(), a_case(mesh=(("dp", 4),))]
    by_measurement(monkeypatch)
    walk = Walk()
    for _ in pool:
        before = walk.covered.copy()
        walk.choose(pool)
        added = [len(pairs(case) - before) for case in pool]
        assert len(pairs(walk.chosen[-1]) - before) == max(added)
