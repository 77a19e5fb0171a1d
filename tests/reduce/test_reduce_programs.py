"""Reduction of programs on fake faults: candidates are valid and simpler, and references keep their sense."""

from collections.abc import Callable
from typing import Any

import pytest
from sample_programs import a_program, an_operator

from difftest.cases.case import Case, Data
from difftest.cases.layers.operator import Items, Operand, Operator, Reference
from difftest.cases.layout import Placements, Replicate, Shard
from difftest.reduce.measure import measure
from difftest.reduce.search import BUDGET, Reduced, reduce
from difftest.reduce.simplifications import simplifications

CHAIN = (
    an_operator(
        "add",
        operands={"input": Operand(shape=(6, 5)), "other": Operand(shape=(5,), memory="strided")},
        arguments=(Reference("input"), Reference("other")),
        options={"alpha": 2},
    ),
    an_operator(
        "index_select",
        operands={"index": Operand(shape=(4,), dtype="int64", values=(0, 5, 2, 2))},
        arguments=(Reference("0.output"), 0, Reference("index")),
    ),
    an_operator(
        "mul",
        call="Tensor.mul_",
        form="inplace",
        operands={"unused": Operand(shape=(2,), dtype="bfloat16")},
        arguments=(Reference("1.output"), Reference("0.other")),
    ),
    an_operator(
        "stack", operands={}, arguments=(Items(items=(Reference("2.output"), Reference("0.input"))),)
    ),
)


def a_chain(**rest: Any) -> Case:  # noqa: ANN401  fields of a case
    sharded: dict[str, Placements] = {"0.input": (Replicate(), Shard(1)), "1.index": (Shard(0), Replicate())}
    return a_program(*CHAIN, mesh=(("dp", 3), ("tp", 2)), sharded=sharded, **rest)


PROGRAMS = (a_chain(), a_chain(dtype="float16", data=Data(batch=1, regime="kinks")), a_program())


def operators(case: Case) -> list[Operator]:
    return [layer for layer in case.model.layers if isinstance(layer, Operator)]


def reduced(case: Case, shows: Callable[[Case], bool]) -> Reduced:
    result = reduce(case, shows)
    assert result
    assert result.evaluations <= BUDGET
    return result


@pytest.mark.parametrize("case", PROGRAMS, ids=["chain", "half", "single"])
def test_every_candidate_of_a_program_is_a_valid_and_simpler_program(case: Case) -> None:
    for simplification in simplifications():
        for words, simpler in simplification(case):
            assert Case.from_json(simpler.to_json()) == simpler
            assert measure(simpler) < measure(case), (simplification.__name__, words)
            assert simpler.model.is_program
            assert (simpler.seed, simpler.path, simpler.training) == (case.seed, case.path, case.training)


def test_a_fault_of_every_program_reduces_to_one_plain_operator_on_one_device() -> None:
    for case in PROGRAMS:
        result = reduced(case, lambda _case: True)
        (operator,) = operators(result.case)
        assert (result.case.world_size, result.case.dtype, result.case.data.regime) == (
            1,
            "float32",
            "normal",
        )
        assert (operator.form, operator.options) == ("function", {})
        assert all(max(operand.shape, default=0) <= 4 for operand in operator.operands.values())
        assert (result.conditions, result.complete) == ((), True)


def test_a_removed_operator_s_tensors_become_operands_of_those_that_refer_to_it() -> None:
    result = reduced(
        a_chain(), lambda case: [operator.operator for operator in operators(case)][-1:] == ["stack"]
    )
    (stack,) = operators(result.case)
    assert len(stack.operands) == len(list(stack.references())) == 2
    assert all(name in stack.operands for name in stack.references())


def test_what_a_fault_needs_stays_and_is_a_condition() -> None:
    def shows(case: Case) -> bool:
        chosen = [operator for operator in operators(case) if operator.operator == "index_select"]
        return bool(chosen) and any(
            isinstance(placement, Shard) for placement in case.layout.parameters.get("0.index", ())
        )

    case = a_program(
        an_operator(
            "index_select",
            operands={
                "input": Operand(shape=(6, 5)),
                "index": Operand(shape=(4,), dtype="int64", values=(0, 5, 2, 2)),
            },
            arguments=(Reference("input"), 0, Reference("index")),
        ),
        mesh=(("dp", 2), ("tp", 2)),
        sharded={"0.index": (Shard(0), Replicate()), "0.input": (Shard(0), Replicate())},
    )
    result = reduced(case, shows)
    assert result.case.world_size == 2
    assert result.conditions == ("world size 2", "0.index sharded along dim 0 over dp")


def test_a_smaller_dim_keeps_indices_in_range_and_arguments_alike() -> None:
    view = an_operator(
        "view",
        operands={
            "input": Operand(shape=(8, 4)),
            "index": Operand(shape=(8,), dtype="int64", values=(7, 6, 5, 4, 3, 2, 1, 0)),
        },
        arguments=(Reference("input"), Items(items=(8, 4)), Reference("index")),
    )

    def shows(case: Case) -> bool:
        (one,) = operators(case)
        index, shape = one.operands["index"], one.operands["input"].shape
        valid = one.arguments[1] == Items(items=shape)
        return valid and len({*(index.values or ())}) > 1 and max(index.values or ()) < shape[0]

    shape = operators(reduced(a_program(view), shows).case)[0].operands["input"].shape
    assert shape == (2, 2)
