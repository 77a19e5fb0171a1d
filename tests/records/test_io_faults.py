"""A failure, or the process's death, at any operation on files: the campaign continues to the same tables."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import io_faults
import pytest
from io_faults import DIED, ERRORS, FAULTS, REFUSED, WENT_ON

TESTS = Path(__file__).parents[1]
LEAST_OPERATIONS = 40
FREQUENT = ("ENOSPC",)
"""What runs with every change; there, `test_resume.py` has processes that die at any write."""

every_night = (pytest.mark.slow, pytest.mark.nightly)


def swept(folder: Path, fault: str) -> list[dict[str, Any]]:
    """What became of the campaign for every operation at which the fault strikes."""
    path = os.pathsep.join(map(str, (TESTS, TESTS.parent)))
    done = subprocess.run(
        [sys.executable, io_faults.__file__, str(folder), fault],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(map(json.loads, done.stdout.splitlines()))


@pytest.mark.long
@pytest.mark.parametrize(
    "fault", [fault if fault in FREQUENT else pytest.param(fault, marks=every_night) for fault in FAULTS]
)
def test_a_fault_at_any_operation_on_files_costs_no_record(tmp_path: Path, fault: str) -> None:
    results = swept(tmp_path, fault)
    assert [result["at"] for result in results] == list(range(1, len(results) + 1))
    assert len(results) > LEAST_OPERATIONS
    assert [result for result in results if not result["equal"]] == []
    expected = {REFUSED, WENT_ON} if fault in ERRORS else {DIED}
    assert {result["status"] for result in results} <= expected, "an error is one of ours, with words"
    if fault in ERRORS:
        assert [result for result in results if result["left"]] == []
