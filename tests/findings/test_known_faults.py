"""Faults of DTensor that the ledger knows, in real runs of the smallest programs that show them."""

import pytest
from installed_packages import needs
from sample_programs import a_call, a_program, an_operator

from difftest.cases.case import Case
from difftest.cases.layers.operator import Argument, Items, Operand, Operator, Reference
from difftest.cases.layout import Placements, Replicate, Shard
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.isolate import limits, sandbox  # noqa: E402
from workers.isolate.answers import new_request  # noqa: E402

SECONDS = 120.0
INPUT, RESULT = Reference("input"), Reference("0.output")
UNBIASED = True
WHOLE = (Replicate(),)
ROWS = Operand(shape=(2,), dtype="int64", values=(0.0, 1.0), gradient=False)
NUMBERS = {"input": Operand(shape=(4, 3))}


def fixed(*shape: int) -> Operand:
    return Operand(shape=shape, gradient=False)


def of_result(operator: str, call: str, *arguments: Argument, form: str = "function") -> Operator:
    return an_operator(operator, call=call, operands={}, arguments=arguments, form=form)


def written(view: str, *where: int) -> Case:
    """A program that writes into a view of a result whose rows are sharded."""
    made = of_result(view, f"torch.{view}", RESULT, *where)
    changed = of_result("tanh", "Tensor.tanh_", Reference("1.output"), form="inplace")
    return a_program(a_call("torch.neg", NUMBERS), made, changed, sharded={"0.input": (Shard(0),)})


def put() -> Case:
    """A program that puts sharded rows into a tensor that is whole."""
    operands = {"input": fixed(4, 2), "rows": ROWS, "values": fixed(2, 2)}
    arguments = INPUT, Items((Reference("rows"),), kind="tuple"), Reference("values")
    return a_program(a_call("torch.index_put", operands, *arguments), sharded={"0.values": (Shard(0),)})


def reduced(operator: str, name: str, input_: Operand, *arguments: Argument) -> Case:
    spec = an_operator(
        operator, call=f"torch.{name}", operands={"input": input_}, arguments=(INPUT, *arguments)
    )
    return a_program(spec, sharded={"0.input": (Shard(0),)})


def shifted() -> Case:
    spec = an_operator(
        "aten.__rshift__",
        call="Tensor.__rshift__",
        operands={"input": ROWS},
        arguments=(INPUT, 1),
        form="method",
    )
    return a_program(spec)


def convolved(*shape: int, stride: int, sharded: Placements = WHOLE) -> Case:
    """Padded where there is no stride."""
    operands = {
        "input": Operand(shape=shape),
        "weight": Operand(shape=(4, 2, 3, 3)),
        "bias": Operand(shape=(4,)),
    }
    arguments = (*map(Reference, operands), stride, int(stride == 1))
    spec = an_operator("nn.functional.conv2d", call="torch.conv2d", operands=operands, arguments=arguments)
    return a_program(spec, sharded={"0.input": sharded})


PROGRAMS = {
    "max_indices": reduced("max.reduction_with_dim", "max", fixed(4, 3), 0),
    "amin_gradient": reduced("amin", "amin", Operand(shape=(4, 3))),
    "squeeze": reduced("squeeze", "squeeze", Operand(shape=(2, 3, 1))),
    "162692": reduced("var", "var", Operand(shape=(3, 2))),
    "issues/162692": reduced("var.unbiased", "var", Operand(shape=(3,)), UNBIASED),
    "shifts_on_dtensor": shifted(),
    "padded": convolved(2, 2, 4, 6, stride=1, sharded=(Shard(0),)),
    "bias_gradient": convolved(2, 2, 6, 6, stride=3),
    "input_gradient": convolved(2, 2, 4, 6, stride=1, sharded=(Shard(3),)),
    "index_put": put(),
    "write_to_narrow": written("narrow", 0, 1, 2),
}


def test_the_ledger_knows_the_faults_of_dtensor_that_programs_show() -> None:
    cases = list(PROGRAMS.values())
    truths, outcomes = (
        sandbox.run_first(
            cases, [new_request(case, name) for case in cases], {}, limits.usual(cases[0], SECONDS, {})
        )
        for name in ("oracle", "torch_dtensor")
    )
    known = {}
    for name, case, truth, outcome in zip(PROGRAMS, cases, truths, outcomes, strict=True):
        shown = compare(case, "torch_dtensor", "torch", truth, outcome).divergences[0]
        entry = read_ledger().entry(shown, case, utc_today())
        known[name] = entry.upstream if entry else shown.detail
    assert {name: name in upstream for name, upstream in known.items()} == dict.fromkeys(PROGRAMS, True), (
        known
    )
