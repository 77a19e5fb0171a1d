"""Entries that predict the wrong number, or name the option that decides: every other damage is unknown."""

import pytest
from msgspec.structs import replace
from samples import a_case
from shown_operators import TODAY, entry

from difftest.cases.options import Spelling
from difftest.findings.ledger import Entry, Ledger, read_ledger
from difftest.judge.divergence import Divergence
from difftest.judge.facts import NumbersFacts
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.evidence import DECIDED_BY

PLAIN = a_case()
BEFORE = replace(PLAIN, spelling=Spelling(optimizer_before=True))
OPTION = "spelling.optimizer_before=True"
ENTRY = Entry(fingerprint="xla_*-mismatch-*", upstream="u", reason="r", expires=TODAY, decided_by=OPTION)


def mismatch(backend: str, check: str, stage: Stage, **fields: object) -> Divergence:
    """Wrong numbers of any kind."""
    shown = Divergence(
        backend=backend,
        side=backend.partition("_")[0],
        path="data_parallel",
        check=check,
        symptom=Symptom.MISMATCH,
        stage=stage,
        tensor="0.weight",
        facts=NumbersFacts(differing=1, elements=8, greatest=0.5, scale=1.0, floor=1e-7),
    )
    return replace(shown, **fields)


@pytest.mark.parametrize("check", ["gradients", "loss", "replicas"])
def test_what_an_option_decides_is_known_whatever_the_check_and_the_damage(check: str) -> None:
    shown = mismatch("xla_spmd", check, Stage.BACKWARD, nature="negated")
    for evidence, known in (
        ({}, False),
        ({DECIDED_BY: OPTION}, True),
        ({DECIDED_BY: f"start.marked=before, {OPTION}"}, True),
        ({DECIDED_BY: "spelling.optimizer_before"}, False),
        ({DECIDED_BY: "start.marked=before"}, False),
    ):
        assert ENTRY.matches(shown, BEFORE, evidence) is known, evidence


def test_an_option_that_the_case_does_not_take_decides_nothing() -> None:
    shown = mismatch("xla_spmd", "gradients", Stage.BACKWARD)
    assert not ENTRY.matches(shown, PLAIN, {DECIDED_BY: OPTION})
    assert Ledger(entries=(ENTRY,)).entry(shown, BEFORE, TODAY, {DECIDED_BY: OPTION}) == ENTRY
    assert Ledger(entries=(ENTRY,)).entry(shown, BEFORE, TODAY) is None


def test_what_a_mechanism_of_the_framework_decides_is_known_in_every_case() -> None:
    shown = mismatch("xla_spmd", "parameters", Stage.UPDATE)
    known = read_ledger().entry(shown, PLAIN, TODAY, {DECIDED_BY: "runtime.cached_graphs"})
    assert known
    assert known.upstream == "difftest/findings/known/graphs_of_equal_hash_on_xla.py"
    assert entry(shown, PLAIN) is None


def test_the_projects_ledger_knows_a_gradient_that_an_early_optimizer_decides() -> None:
    shown = mismatch("xla_spmd", "gradients", Stage.BACKWARD, nature="times a constant")
    assert entry(shown, BEFORE) is None
    found = read_ledger().entry(shown, BEFORE, TODAY, {DECIDED_BY: OPTION})
    assert found
    assert found.upstream == "difftest/findings/known/optimizer_before_device_on_xla.py"


def test_an_entry_predicts_only_what_there_is_a_model_of() -> None:
    with pytest.raises(
        ValueError, match=r"entry 'xla_\*-mismatch-\*' predicts 'magic'; allowed: another_divisor"
    ):
        replace(ENTRY, predicts="magic")
