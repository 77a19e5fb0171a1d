"""What two successive releases do not show alike is a flip."""

import pytest

from difftest.findings.faults import read_faults, release_order
from difftest.findings.flips import Became, Kind, Tried, flips, listed
from difftest.records.finding import State


def tried(release: str, state: State, shown: str = "", *, kind: Kind = "script", name: str = "s") -> Tried:
    return Tried(package="torch", release=release, kind=kind, name=name, state=state, shown=shown)


@pytest.mark.parametrize(
    ("before", "after", "became"),
    [
        (("alive", ""), ("fixed", ""), Became.FIXED),
        (("fixed", ""), ("alive", ""), Became.BROKEN),
        (("alive", ""), ("unclear", ""), Became.CHANGED),
        (("unclear", ""), ("fixed", ""), Became.CHANGED),
        (("alive", "a-1"), ("alive", "a-2"), Became.CHANGED),
        (("alive", "a-1"), ("alive", "a-1"), None),
        (("fixed", ""), ("fixed", ""), None),
    ],
)
def test_a_change_of_state_is_a_flip(
    before: tuple[State, str], after: tuple[State, str], became: Became | None
) -> None:
    made = flips([tried("2.9.0", *before), tried("2.15.0", *after)])
    assert [flip.became for flip in made] == ([became] if became else [])


def test_releases_follow_one_another_by_number_and_each_flip_is_of_one_release() -> None:
    made = flips([tried("2.15.0", "alive"), tried("2.9.0", "alive"), tried("2.10.0", "fixed")])
    assert [(flip.became, flip.before.release, flip.after.release) for flip in made] == [
        (Became.BROKEN, "2.10.0", "2.15.0"),
        (Became.FIXED, "2.9.0", "2.10.0"),
    ]


def test_only_the_same_subject_is_compared() -> None:
    assert flips([tried("2.9.0", "alive"), tried("2.15.0", "fixed", name="other")]) == ()


def test_the_list_knows_the_flips_of_jaxlib_with_both_partitioners() -> None:
    of_xla = [one for one in listed(read_faults()) if one.package == "jaxlib"]
    names = {
        (flip.after.release, flip.after.name, flip.after.partitioner)
        for flip in flips(of_xla)
        if flip.became is Became.FIXED
    }
    assert {
        ("0.10.2", "uneven_residual_on_xla", "Shardy"),
        ("0.10.2", "uneven_residual_on_xla", "GSPMD"),
        ("0.12.0.1", "diagonal_written_by_index_on_xla", "Shardy"),
        ("0.12.0.1", "log1p_of_float64_on_xla", ""),
    } <= names


def test_a_nightly_build_and_a_candidate_come_before_their_release() -> None:
    releases = ["2.16.0", "nonsense", "2.16.0rc1", "2.15.1", "2.16.0.dev20261101"]
    ordered = ["nonsense", "2.15.1", "2.16.0.dev20261101", "2.16.0rc1", "2.16.0"]
    assert sorted(releases, key=release_order) == ordered
    assert release_order("2.16.0+cpu") == release_order("2.16.0")
