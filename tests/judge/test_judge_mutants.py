"""A judge that is broken is noticed: each campaign watches its own judge, by the canary among others."""

from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from mutants import mutated
from rooms import ROOT
from vacuous_campaigns import Fault, ended

from difftest.judge import (
    capability,
    comparator,
    doubts,
    elements,
    measured,
    mismatches,
    noise,
    predictions,
)
from difftest.judge.checks import (
    completion,
    determinism,
    finite,
    gradients,
    loss,
    on_device,
    parameters,
    replicas,
    shape,
)

LEAST = 0.95


@pytest.fixture(scope="module", autouse=True)
def loaded_before() -> None:
    """Loads all predictions: each takes the threshold when it is first loaded, and would keep a mutant's."""
    for name in predictions.names():
        predictions.load(name)


class Mutant(NamedTuple):
    """One line of the judge, and what it becomes."""

    module: ModuleType
    old: str
    new: str


MUTANTS = {
    "a threshold of 1e30": Mutant(noise, "THRESHOLD = 10.0", "THRESHOLD = 1e30"),
    "a threshold of 0.01": Mutant(noise, "THRESHOLD = 10.0", "THRESHOLD = 0.01"),
    "floors 300 times too high": Mutant(
        noise, "floors = unit * np.sqrt(", "floors = 300.0 * unit * np.sqrt("
    ),
    "floors of the greatest value": Mutant(
        noise,
        "shared = square.sum() / max(1, np.count_nonzero(decided))",
        "shared = 1e12 * square.max(initial=1.0)",
    ),
    "no absolute value": Mutant(noise, "magnitude = np.abs(error)\n    with", "magnitude = error\n    with"),
    "the least error for the greatest": Mutant(
        measured,
        "ratio = float(_bounded(noise.in_floors(error, floors)).max(initial=0.0))",
        "ratio = float(_bounded(noise.in_floors(error, floors)).min(initial=0.0))",
    ),
    "the mean error for the greatest": Mutant(
        measured,
        "ratio = float(_bounded(noise.in_floors(error, floors)).max(initial=0.0))",
        "ratio = float(_bounded(noise.in_floors(error, floors)).mean()) / max(1, error.size)",
    ),
    "the first step only": Mutant(
        measured,
        "zip(run.expected.steps, actual.steps, strict=False)):\n        for (stage, name), truth",
        "zip(run.expected.steps[:1], actual.steps, strict=False)):\n        for (stage, name), truth",
    ),
    "the candidate for the oracle": Mutant(
        elements,
        "difference = np.asarray(value, np.float64) - np.asarray(truth, np.float64)",
        "difference = np.asarray(value, np.float64) - np.asarray(value, np.float64)",
    ),
    "everything undecided": Mutant(
        measured, "decided = np.isfinite(floors)", "decided = np.zeros(floors.shape, bool)"
    ),
    "exact sums for all": Mutant(
        measured,
        "return measurement.ratio > (0.0 if measurement.exact else noise.THRESHOLD)",
        "return measurement.ratio > 0.0",
    ),
    "nothing is beyond": Mutant(
        mismatches, "wanted(key[2]) and beyond(measurement):", "wanted(key[2]) and not measurement:"
    ),
    "gradients as parameters": Mutant(gradients, '"gradients", Stage.BACKWARD', '"gradients", Stage.UPDATE'),
    "no check of losses and outputs": Mutant(loss, "return mismatches(run,", "return () and mismatches(run,"),
    "no check of parameters": Mutant(parameters, "return mismatches(run,", "return () and mismatches(run,"),
    "no check of shapes": Mutant(shape, "if wrong := _wrong(", "if wrong := None and _wrong("),
    "no check of values that are not finite": Mutant(
        finite, "if wrong := list(_wrong(run, key, tensor)):", "if wrong := list[object]():"
    ),
    "no check of copies": Mutant(replicas, "if odd := [", "if odd := () and ["),
    "no check of a second run": Mutant(
        determinism,
        "if isinstance(run.actual, Failure) or run.again is None:",
        "if run.again or not run.again:",
    ),
    "no check of completion": Mutant(
        completion, "if not isinstance(failure, Failure):", "if failure or not failure:"
    ),
    "no check of devices": Mutant(on_device, "if not events.device:", "if events:"),
    "no doubts": Mutant(comparator, "leaves_range or doubt(run, farthest)", "leaves_range"),
    "a failed oracle agrees": Mutant(
        comparator,
        'return _inconclusive(Doubt(failed, f"{failed}: {expected.kind}: {expected.message}"))',
        'return Comparison(verdict="agree")',
    ),
    "other numbers agree": Mutant(
        comparator, "and _numbers(expected) != _numbers(actual):", "and not expected:"
    ),
    "values out of range agree": Mutant(
        comparator, "leaves_range = out_of_range(case.dtype)", "leaves_range = None"
    ),
    "every divergence is a lack": Mutant(
        capability, "            faults.append(divergence)", "            lacks = lacks"
    ),
    "a still oracle has no doubt": Mutant(doubts, "        or _nothing_moves(run)\n", ""),
}
"""A judge that is broken in these ways must be noticed in a campaign in which all runs are right."""

UNNOTICED = {"a still oracle has no doubt"}
"""What no campaign of right runs notices: the doubt itself is a guard, of another fault."""


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_judge_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with mutated(*MUTANTS[name]):
        done = ended(tmp_path / "out", Fault(words=""), monkeypatch, ["summary"])
    if name in UNNOTICED:
        assert done.status == 0, "it is noticed: take it out of the list"
        return
    assert done.status in {1, 3}, done.printed
    if done.status == 3:
        assert done.summary["opening"]
        assert done.summary["incomplete"]


def test_all_but_one_in_twenty_mutants_are_noticed_and_all_are_documented() -> None:
    assert len(MUTANTS) - len(UNNOTICED) >= LEAST * len(MUTANTS) >= LEAST * 20
    page = (ROOT / "docs" / "accuracy.md").read_text()
    assert [name for name in MUTANTS if f"| {name} |" not in page] == []
