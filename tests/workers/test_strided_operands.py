"""Operands that two mesh axes cut in the reverse of mesh order: read rightly; a known fault of DTensor's."""

import functools

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace

from difftest.cases.case import Case
from difftest.cases.layout import Shard
from difftest.cases.options import Spelling
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare
from difftest.records.evidence import DECIDED_BY
from generators.cases import case_at
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

BACKEND = "torch_dtensor"
ENOUGH = 1000


@functools.cache
def first(function: str, operands: int) -> Case:
    """The first program of an operator of which so many operands are cut twice."""
    for index in range(ENOUGH):
        case = case_at(0, index, paths=("strided_operands",), max_world_size=4)
        twice = [placed for placed in case.layout.parameters.values() if isinstance(placed[0], Shard)]
        if case.model.operators["0"].operator == function and len(twice) == operands:
            return case
    raise AssertionError(function)


def test_an_operator_that_gathers_gives_what_it_gives_in_mesh_order() -> None:
    case = first("softmax", 1)
    assert agrees(case, BACKEND, sandbox.run(case, BACKEND))


@pytest.mark.parametrize(("function", "operands"), [("exp", 1), ("mul", 2), ("matmul", 2)])
def test_operands_are_taken_for_cut_in_mesh_order_which_is_known(function: str, operands: int) -> None:
    case = first(function, operands)
    shown = compare(case, BACKEND, "torch", oracle_trace(case), sandbox.run(case, BACKEND)).divergences[0]
    evidence = {DECIDED_BY: "spelling.strided=True"}
    assert read_ledger().entry(shown, case, utc_today(), evidence=evidence)
    in_mesh_order = msgspec.structs.replace(case, spelling=Spelling())
    assert agrees(in_mesh_order, BACKEND, sandbox.run(in_mesh_order, BACKEND))
