"""Programs in real processes: every form of a call, kind of tensor and placement, on both sides."""

from collections.abc import Sequence

import numpy as np
import pytest
from sample_programs import a_call, a_program

from difftest.cases.case import Case
from difftest.cases.layers.operator import Items, Named, Operand, Reference
from difftest.cases.layout import Partial, PartialBy, Replicate, Shard
from difftest.judge.comparator import compare
from difftest.judge.events import Fact
from difftest.judge.outcome import Failure, Outcome, Trace
from difftest.judge.stage import Stage

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers import backends  # noqa: E402
from workers.isolate import limits, sandbox  # noqa: E402
from workers.isolate.answers import new_request  # noqa: E402
from workers.training.arguments import LackingError, called  # noqa: E402

NO_OPERATORS = (
    *("torch.load", "torch.save", "torch.os.system", "torch.from_file", "torch.ops.aten.from_file"),
    *("torch.hub.load", "torch.compile", "torch.ops.aten.save", "nothing"),
)
P, R, S0, S1 = Partial(), Replicate(), Shard(0), Shard(1)
GRID = (("dp", 2), ("tp", 2))
SECONDS = 120.0


def a_float(*shape: int, **fields: object) -> Operand:
    return Operand(shape=shape, **fields)  # type: ignore[arg-type]


def whole(*shape: int, **fields: object) -> Operand:
    return Operand(shape=shape, dtype="int64", **fields)  # type: ignore[arg-type]


MATRICES = {"a": a_float(5, 3), "b": a_float(3, 7)}
WRITTEN = {name: a_float(5, 4, gradient=False) for name in ("input", "other", "out")}
OUTPUT = Reference("0.output")

FLAT = {
    "a function": a_program(
        a_call("torch.mul", {"input": a_float(5, 4), "other": a_float(4)}),
        sharded={"0.input": (S0,), "0.other": (S0,)},
    ),
    "a method": a_program(
        a_call("Tensor.sum", {"input": a_float(5, 4)}, Reference("input"), 1, form="method"),
        sharded={"0.input": (S0,)},
    ),
    "an attribute": a_program(
        a_call("Tensor.mT", {"input": a_float(5, 3)}, form="method"), sharded={"0.input": (S0,)}
    ),
    "an overload of aten": a_program(
        a_call("torch.ops.aten.add.Tensor", {"a": a_float(5, 3), "b": a_float(5, 3)}),
        sharded={"0.a": (S0,), "0.b": (S1,)},
    ),
    "in place": a_program(
        a_call("Tensor.add_", {"input": a_float(6, 4), "other": a_float(4)}, form="inplace"),
        a_call("torch.exp", {}, Reference("0.input")),
        sharded={"0.input": (S0,)},
    ),
    "in place in a view": a_program(
        a_call("Tensor.view", {"input": a_float(6, 4)}, Reference("input"), 3, 8, form="method"),
        a_call("Tensor.mul_", {"other": a_float(8)}, OUTPUT, Reference("other"), form="inplace"),
    ),
    "into a given tensor": a_program(
        a_call("torch.add", WRITTEN, Reference("input"), Reference("other"), form="out"),
        sharded={"0.input": (S0,), "0.out": (S0,)},
    ),
    "several results": a_program(
        a_call("torch.split", {"input": a_float(5, 6)}, Reference("input"), 4, options={"dim": 1}),
        sharded={"0.input": (S0,)},
    ),
    "a list of tensors": a_program(
        a_call(
            "torch.cat",
            {"a": a_float(0, 4), "b": a_float(3, 4)},
            Items((Reference("a"), Reference("b"))),
        ),
        sharded={"0.a": (S0,), "0.b": (S0,)},
    ),
    "integers": a_program(
        a_call("torch.true_divide", {"input": whole(5, 6), "other": whole(6, low=1, high=5)}),
        sharded={"0.input": (S1,)},
    ),
    "integers in place": a_program(
        a_call("Tensor.add_", {"input": whole(6, 4), "other": whole(4)}, form="inplace"),
        a_call("torch.mul", {"factor": a_float(6, 4)}, Reference("0.input"), Reference("factor")),
        sharded={"0.input": (S0,)},
    ),
    "booleans": a_program(
        a_call(
            "torch.where",
            {"condition": Operand(shape=(5, 6), dtype="bool"), "input": a_float(5, 6), "other": a_float()},
        ),
        sharded={"0.condition": (S1,), "0.input": (S1,)},
    ),
    "no dims": a_program(a_call("torch.atan2", {"input": a_float(), "other": a_float()})),
    "a number": a_program(
        a_call("Tensor.size", {"input": a_float(5, 4)}, Reference("input"), 0, form="method"),
        a_call("torch.mul", {}, Reference("0.input"), OUTPUT),
    ),
    "uneven shards": a_program(a_call("torch.matmul", MATRICES), sharded={"0.a": (S0,), "0.b": (S1,)}),
    "float64": a_program(a_call("torch.matmul", MATRICES), sharded={"0.a": (S0,)}, dtype="float64"),
    "two dtypes": a_program(
        a_call("torch.mul", {"a": a_float(5, 3), "b": a_float(5, 3, dtype="float32")}),
        sharded={"0.a": (S0,)},
        dtype="bfloat16",
    ),
    "a named dtype": a_program(
        a_call(
            "Tensor.to",
            {"input": a_float(5, 3)},
            Reference("input"),
            Named(kind="dtype", text="float64"),
            form="method",
        ),
        sharded={"0.input": (S0,)},
    ),
    "a chain that uses tensors twice": a_program(
        a_call("torch.mul", {"a": a_float(5, 3)}, Reference("a"), Reference("a")),
        a_call("torch.add", {"b": a_float(5, 1)}, OUTPUT, Reference("b")),
        a_call("torch.sum", {}, Reference("1.output"), 0),
        a_call("torch.mul", {}, Reference("2.output"), Reference("0.a")),
        sharded={"0.a": (S0,)},
    ),
    "not contiguous": a_program(
        a_call("torch.add", {"a": a_float(5, 3, memory="strided"), "b": a_float(5, 3, memory="transposed")}),
        a_call("torch.exp", {"c": a_float(4, 3, memory="expanded")}),
        sharded={"0.a": (S0,), "0.b": (S1,), "1.c": (S0,)},
    ),
    "infinities and NaN": a_program(
        a_call("torch.log", {"input": a_float(5, values=(1, 0, -1, 2, 3))}), sharded={"0.input": (S0,)}
    ),
}
"""Programs on two ranks, by what is special about them."""

PARTIAL = {
    "a function that is not linear": a_program(
        a_call("torch.exp", {"input": a_float(5, 4, memory="strided")}), sharded={"0.input": (P,)}
    ),
    "shares of zeros and of the largest and smallest numbers": a_program(
        a_call("torch.reciprocal", {"input": a_float(4, values=(0, -0.0, 3e38, 1e-30))}),
        sharded={"0.input": (P,)},
    ),
    "half precision": a_program(
        a_call("torch.add", {"a": a_float(5, 4), "b": a_float(5, 4)}),
        sharded={"0.a": (P,), "0.b": (S0,)},
        dtype="bfloat16",
    ),
    "a mean": a_program(
        a_call("torch.exp", {"input": a_float(5, 4)}), sharded={"0.input": (PartialBy("avg"),)}
    ),
    "the greatest": a_program(
        a_call("torch.exp", {"input": a_float(5, 4)}), sharded={"0.input": (PartialBy("max"),)}
    ),
    "the least": a_program(
        a_call("torch.exp", {"input": a_float(5, 4)}), sharded={"0.input": (PartialBy("min"),)}
    ),
}
"""Programs on two ranks that hold shares."""

SQUARE = {
    "two axes on one dim": a_program(
        a_call("torch.tanh", {"input": a_float(7, 3)}), mesh=GRID, sharded={"0.input": (S0, S0)}
    ),
    "two axes on two dims": a_program(
        a_call("torch.matmul", {"a": a_float(6, 4), "b": a_float(4, 6)}),
        mesh=GRID,
        sharded={"0.a": (S0, S1), "0.b": (S0, S1)},
    ),
}
"""Programs on four ranks."""

SHARES_OF_PIECES = {
    "two operands": a_program(
        a_call("torch.matmul", {"a": a_float(5, 4), "b": a_float(4, 3)}),
        mesh=GRID,
        sharded={"0.a": (P, S0), "0.b": (S1, P)},
    )
}


def runs(cases: Sequence[Case], backend: str) -> Sequence[Outcome]:
    """The outcomes of cases that run one after another in the same processes."""
    allowed = limits.usual(cases[0], SECONDS, {})
    return sandbox.run_first(cases, [new_request(case, backend) for case in cases], {}, allowed)


@pytest.fixture(scope="module")
def truths() -> dict[str, Outcome]:
    """The oracle's outcome of every program, by the case's id."""
    groups = (FLAT, SQUARE, PARTIAL, SHARES_OF_PIECES)
    cases = [case for group in groups for case in group.values()]
    return {case.id: outcome for case, outcome in zip(cases, runs(cases, "oracle"), strict=True)}


@pytest.mark.parametrize("group", [FLAT, SQUARE], ids=["2 ranks", "4 ranks"])
@pytest.mark.parametrize("backend", ["torch_dtensor", pytest.param("xla_spmd", marks=pytest.mark.xla)])
def test_programs_agree_with_the_oracle(
    backend: str, group: dict[str, Case], truths: dict[str, Outcome]
) -> None:
    assert_agreement(backend, group, truths)


@pytest.mark.xla
def test_programs_run_on_one_device_without_annotations(truths: dict[str, Outcome]) -> None:
    names = ("in place in a view", "several results", "booleans", "not contiguous")
    group = {name: FLAT[name].unsharded() for name in names}
    alone = {case.id: truths[FLAT[name].id] for name, case in group.items()}
    assert_agreement("xla_replica", group, alone)


@pytest.mark.xla
def test_a_dim_that_is_removed_in_place_takes_its_placement_along() -> None:
    squeezed = a_call("Tensor.squeeze_", {"input": a_float(4, 1, 6)}, Reference("input"), 1, form="inplace")
    case = a_program(
        squeezed, a_call("torch.exp", {}, Reference("0.input")), sharded={"0.input": (Shard(2),)}
    )
    assert_agreement("xla_spmd", {"squeezed": case}, {case.id: runs([case], "oracle")[0]})


@pytest.mark.parametrize("group", [PARTIAL, SHARES_OF_PIECES], ids=["2 ranks", "4 ranks"])
def test_shares_of_a_sum_stand_for_their_sum(group: dict[str, Case], truths: dict[str, Outcome]) -> None:
    assert_agreement("torch_dtensor", group, truths)


def assert_agreement(backend: str, group: dict[str, Case], truths: dict[str, Outcome]) -> None:
    outcomes = runs(list(group.values()), backend)
    compared = {
        name: compare(case, backend, backends.load(backend).SIDE, truths[case.id], outcome)
        for (name, case), outcome in zip(group.items(), outcomes, strict=True)
    }
    assert {name: (c.verdict, c.reason, c.divergences) for name, c in compared.items()} == dict.fromkeys(
        group, ("agree", "", ())
    )


def a_truth(truths: dict[str, Outcome], name: str) -> Trace:
    truth = truths[FLAT[name].id]
    assert isinstance(truth, Trace), truth
    return truth


def test_what_is_written_in_place_shows_in_the_operand_its_view_and_what_is_read_later(
    truths: dict[str, Outcome],
) -> None:
    step = a_truth(truths, "in place in a view").steps[0]
    product = step[Stage.FORWARD, "1.output"].pieces[0]
    np.testing.assert_array_equal(step[Stage.FORWARD, "0.output"].pieces[0], product)
    np.testing.assert_array_equal(step[Stage.UPDATE, "0.input"].pieces[0], product.reshape(6, 4))
    written = a_truth(truths, "into a given tensor").steps[0]
    assert (
        written[Stage.UPDATE, "0.out"].pieces[0].tolist()
        == written[Stage.FORWARD, "0.output"].pieces[0].tolist()
    )


def test_the_oracle_computes_in_float64_and_tells_what_torch_gives_in_the_dtype_of_the_case(
    truths: dict[str, Outcome],
) -> None:
    for name, dtype in {"two dtypes": "float32", "integers": "float32", "a named dtype": "float64"}.items():
        truth = a_truth(truths, name)
        assert truth.steps[0][Stage.FORWARD, "0.output"].dtype == "float64"
        assert truth.events.facts["0.output"] == Fact(dtype, name != "integers")
    assert a_truth(truths, "a number").steps[0][Stage.FORWARD, "0.output"].shape == ()


def test_a_program_without_gradients_has_no_loss(truths: dict[str, Outcome]) -> None:
    stages = {stage for stage, _ in a_truth(truths, "integers").steps[0]}
    assert stages == {Stage.FORWARD, Stage.UPDATE}
    assert (Stage.FORWARD, "loss") not in a_truth(truths, "integers").steps[0]


def test_a_failure_names_the_operator_that_raised() -> None:
    case = a_program(
        a_call("torch.exp", {"input": a_float(4, 3)}),
        a_call("torch.matmul", {"other": a_float(4, 3)}, OUTPUT, Reference("other")),
    )
    outcome = sandbox.run(case, "oracle")
    assert isinstance(outcome, Failure)
    assert (outcome.operator, outcome.stage, outcome.kind) == ("matmul", Stage.FORWARD, "RuntimeError")


@pytest.mark.parametrize("call", NO_OPERATORS)
def test_only_operators_can_be_called(call: str) -> None:
    with pytest.raises(LackingError, match="is no operator of torch"):
        called(call)


def test_functions_methods_attributes_factories_and_overloads_can_be_called() -> None:
    assert called("torch.nn.functional.gelu") is torch.nn.functional.gelu
    assert called("torch.ops.aten.add.Tensor") is torch.ops.aten.add.Tensor
    assert called("torch.arange")(3).tolist() == [0, 1, 2]
    assert called("torch.signal.windows.hann") is torch.signal.windows.hann
    assert called("Tensor.add_")(torch.ones(1), 2).tolist() == [3]
    assert called("torch.Tensor.real")(torch.ones(1)).tolist() == [1]
