"""The evidence of a real finding names the option by which the ledger knows it, whatever the check."""

from pathlib import Path

import pytest
from installed_packages import needs
from samples import a_case

from difftest.cases.case import Training
from difftest.cases.options import Spelling
from difftest.findings.ledger import Ledger, read_ledger

pytestmark = [pytest.mark.slow, pytest.mark.xla]
needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")

from decided import assert_known_by_its_option  # noqa: E402

OPTION = "spelling.optimizer_before=True"


def test_a_fault_that_an_option_decides_is_known_by_the_evidence_alone(tmp_path: Path) -> None:
    case = a_case(training=Training(steps=2), spelling=Spelling(optimizer_before=True))

    ledger = Ledger(entries=tuple(entry for entry in read_ledger().entries if entry.decided_by == OPTION))
    assert_known_by_its_option(case, ("xla_spmd", "torch_dtensor"), ledger, OPTION, tmp_path)
