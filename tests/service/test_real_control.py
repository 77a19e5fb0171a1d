"""A control case on a real backend: known faults alone made it disagree in a whole campaign."""

from pathlib import Path

import pytest
from command_line import command
from installed_packages import needs

from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.resets import plain
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.observation import Observation
from generators.cases import case_at

pytestmark = [pytest.mark.slow, pytest.mark.xla]
needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

from without_ray import without_ray  # noqa: E402

SEED, CASES, PATH, RANKS, BACKEND = 60, 5, "data_parallel", 2, "xla_ddp"
"""A campaign in which each of the three cases that `BACKEND` runs shows a known fault of it."""


def is_control(line: Observation) -> bool:
    return CaseNumber.of(line.index).series == Series.CONTROL


def test_a_real_backend_that_met_known_faults_alone_agrees_in_its_control(tmp_path: Path) -> None:
    where = ("--paths", PATH, "--seed", SEED, "--max-world-size", RANKS)
    how = ("--cases", CASES, "--programs", 0, "--backends", f"{BACKEND},torch_ddp", "--out", tmp_path)
    with without_ray():
        done = command("run", *where, *how)
    assert done.status == 0, done.output
    assert f"{BACKEND} never agreed: running control case control-1" in done.output
    ours = [line for line in Corpus(tmp_path / CORPUS).observations() if line.backend == BACKEND]
    compared = [line for line in ours if not is_control(line) and line.verdict != "unsupported"]
    assert [line.verdict for line in compared] == ["diverge"] * 3
    assert [line.verdict for line in ours if is_control(line)] == ["agree"]


def test_the_control_is_no_case_that_shows_a_known_fault_in_its_plain_form() -> None:
    first, second = (plain(case_at(SEED, i, paths=(PATH,), max_world_size=RANKS)) for i in range(2))

    def known(case: Case) -> int:
        return read_ledger().about(BACKEND, case, utc_today())

    assert known(second) < known(first), "the only buffer of the first is zero on the other rank"
