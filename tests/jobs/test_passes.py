"""`difftest passes`: what it is given, and what the list of known faults says of passes."""

from pathlib import Path

import pytest

from difftest.findings.faults import read_faults
from difftest.ground.errors import UsageError
from difftest.jobs.filing.accusation import program_of


def test_a_target_that_is_nothing_says_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="conv1d_kernel_sharded_on_xla"):
        program_of(tmp_path / "nothing", None)


def test_the_scripts_of_a_fault_begin_with_that_on_jax() -> None:
    program = program_of(Path("right_shift_on_xla"), None)
    assert ["torch_xla" in text for text in program.scripts] == [False, True]


def test_every_wrong_number_and_crash_of_xla_in_the_list_has_its_pass() -> None:
    lacking = [fault.name for fault in read_faults() if fault.package == "XLA" and not fault.passes]
    assert lacking == []
