"""The numbers of a program: within bounds, held by each operand's dtype, and decided by the seed alone."""

import msgspec
import numpy as np
import pytest
from sample_programs import a_program, an_operator
from samples import a_case

from difftest.cases import numbers
from difftest.cases.case import Case, DType
from difftest.cases.draws import Floats, round_to
from difftest.cases.layers.operator import FLOATS, Form, Operand, OperandType
from difftest.cases.layout import Partial, PartialBy, Shard
from difftest.cases.resets import option_resets
from difftest.ground import plugins
from workers import backends

RUNS_PROGRAMS = {"oracle", "torch_dtensor", "tpu_dtensor", "xla_spmd", "xla_annotated"}
RUNS_PROGRAMS_ON_ONE_RANK = RUNS_PROGRAMS | {"xla_replica", "tpu_compile"}
INTEGERS: tuple[OperandType, ...] = ("int8", "int16", "int32", "int64", "uint8", "bool")


def of(operand: Operand, dtype: DType = "float32", seed: int = 1) -> Floats:
    """The values of this operand as a program's only one."""
    case = a_program(an_operator(operands={"input": operand}), dtype=dtype, seed=seed)
    return numbers.weights(case)["0.input"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_operand_is_held_by_its_own_dtype(dtype: OperandType) -> None:
    drawn = of(Operand(shape=(8, 8), dtype=dtype), "bfloat16")
    own: DType = "bfloat16" if dtype == "float" else dtype  # type: ignore[assignment]
    np.testing.assert_array_equal(drawn, round_to(own, drawn))
    assert drawn.std() > 0.5


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_operand_is_held_by_its_own_dtype(dtype: OperandType) -> None:
    drawn = of(Operand(shape=(8, 8), dtype=dtype))
    np.testing.assert_array_equal(drawn, drawn.astype(dtype).astype(np.float64))
    assert len(np.unique(drawn)) > 1


@pytest.mark.parametrize(("low", "high"), [(None, None), (0.0, None), (None, -2.0), (-1.0, 1.0), (3.0, 5.0)])
@pytest.mark.parametrize("dtype", ["float", "float16", "int64"])
def test_values_are_within_the_bounds(low: float | None, high: float | None, dtype: OperandType) -> None:
    drawn = of(Operand(shape=(40,), dtype=dtype, low=low, high=high))
    assert low is None or drawn.min() >= low
    assert high is None or drawn.max() <= high


def test_floats_stay_off_the_bounds_where_an_operator_may_not_be_defined() -> None:
    drawn = of(Operand(shape=(4096,), low=-1.0, high=1.0), "bfloat16")
    assert np.abs(drawn).max() < 1.0


def test_given_values_are_taken_and_rounded_to_the_dtype() -> None:
    third = 1 / 3
    np.testing.assert_array_equal(of(Operand(shape=(2, 1), values=(2, 5), dtype="int32")), [[2.0], [5.0]])
    rounded = of(Operand(shape=(), values=(third,)), "bfloat16")
    assert rounded.shape == ()
    assert rounded == round_to("bfloat16", np.array(third)) != third
    np.testing.assert_array_equal(of(Operand(shape=(2,), values=(3, 0), dtype="bool")), [1.0, 0.0])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_given_values_are_finite_because_json_has_no_others(value: float) -> None:
    with pytest.raises(ValueError, match="allowed: finite numbers"):
        of(Operand(shape=(2,), values=(1.0, value)))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
@pytest.mark.parametrize("dtype", ["float", "int64", "bool"])
def test_operands_may_be_empty_or_have_no_dim(shape: tuple[int, ...], dtype: OperandType) -> None:
    assert of(Operand(shape=shape, dtype=dtype)).shape == shape


def test_boundaries_ascend() -> None:
    operands = {"input": Operand(shape=(2,)), "boundaries": Operand(shape=(2, 8))}
    drawn = numbers.weights(a_program(an_operator(operands=operands)))["0.boundaries"]
    assert (np.diff(drawn) > 0).all()


def test_operands_and_seeds_have_numbers_of_their_own() -> None:
    both = {"input": Operand(shape=(6,)), "other": Operand(shape=(6,))}
    case = a_program(an_operator(operands=both), seed=1)
    drawn = numbers.weights(case)
    assert not np.array_equal(drawn["0.input"], drawn["0.other"])
    assert not np.array_equal(drawn["0.input"], of(both["input"], seed=2))
    np.testing.assert_array_equal(drawn["0.input"], of(both["input"], seed=1))


def test_where_an_operand_is_placed_does_not_change_its_numbers() -> None:
    case = a_program(sharded={"0.input": (Shard(0),)})
    assert numbers.digest(case) == numbers.digest(case.unsharded())
    assert case.unsharded().unsharded() == case.unsharded()


def test_a_changed_value_changes_the_digest() -> None:
    digests = {
        numbers.digest(a_program(an_operator(operands={"input": Operand(shape=(2,), values=values)})))
        for values in ((1, 2), (1, 3))
    }
    assert len(digests) == 2


def test_a_cotangent_belongs_to_its_result_and_is_held_by_the_dtype_of_the_case() -> None:
    case = a_program(dtype="float16")
    one, other = (numbers.cotangent(case, name, (5, 2)) for name in ("0.output.0", "0.output.1"))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(one, round_to("float16", one))
    assert numbers.cotangent(case, "0.output", ()).shape == ()


def test_a_program_is_the_same_case_after_json_whether_its_bounds_are_written_whole_or_not() -> None:
    case = a_program(an_operator(operands={"input": Operand(shape=(4, 3), low=0, high=4)}))
    again = Case.from_json(case.to_json())
    assert (again, again.id) == (case, case.id)
    assert not list(option_resets(case))


def test_only_float_operands_of_programs_are_placed_as_partial_sums() -> None:
    partial = (Partial(),)
    assert msgspec.json.encode(partial) == b'[["P"]]'
    case = a_program(sharded={"0.input": partial})
    assert Case.from_json(case.to_json()).layout.parameters["0.input"] == partial
    takers = {name for name in RUNS_PROGRAMS if not backends.load(name).unsupported(case)}
    assert takers == {"oracle", "torch_dtensor", "tpu_dtensor"}
    mean = a_program(sharded={"0.input": (PartialBy("avg"),)})
    assert Case.from_json(mean.to_json()) == mean != case
    assert {name for name in RUNS_PROGRAMS if not backends.load(name).unsupported(mean)} == takers
    indices = an_operator(operands={"input": Operand(shape=(4, 3), dtype="int64")})
    with pytest.raises(ValueError, match=r"0\.input is placed as a partial sum; only float operands"):
        a_program(indices, sharded={"0.input": partial})
    with pytest.raises(ValueError, match="the batch is placed as a partial sum"):
        a_case(mesh=(("dp", 2),), batch=partial)


@pytest.mark.parametrize("name", plugins.names("workers.backends"))
def test_a_backend_runs_programs_or_says_why_not(name: str) -> None:
    backend = backends.load(name)
    case = a_program()
    refusals = {backend.unsupported(case), backend.unsupported(msgspec.structs.replace(case, seed=2))}
    assert (refusals == {None}) == (name in RUNS_PROGRAMS)
    assert (backend.unsupported(case.unsharded()) is None) == (name in RUNS_PROGRAMS_ON_ONE_RANK)


@pytest.mark.parametrize(
    "shape", [(0, 4097), (10**9, 0), (0, 10**30), (64, 0, 65), (1,) * 65, (-1,), (64, 65)], ids=str
)
def test_no_operand_has_sizes_that_a_size_of_0_hides(shape: tuple[int, ...]) -> None:
    reason = Operand(shape=shape, values=()).contradiction()
    assert "allowed: up to 64 dims, sizes from 0, up to 4096 elements, counting 0 as 1" in reason


@pytest.mark.parametrize("shape", [(0,), (0, 4096), (64, 0, 64), (1,) * 64])
def test_an_operand_may_be_empty_and_have_many_dims(shape: tuple[int, ...]) -> None:
    assert Operand(shape=shape).contradiction() == ""


@pytest.mark.parametrize(("call", "form"), [("Tensor.neg", "method"), ("torch.relu_", "inplace")])
def test_what_is_called_on_a_tensor_has_one(call: str, form: Form) -> None:
    bare = an_operator("neg", call=call, form=form, arguments=())
    assert bare.contradiction() == f"calls {call!r} without arguments; needed: the tensor whose method it is"
    assert an_operator("neg", call=call, form=form).contradiction() == ""
