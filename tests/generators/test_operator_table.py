"""The operator table: what it holds is valid, varied and explained."""

import json
import math
import pickle
import re
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

from difftest.cases.layers.operator import MOST_ELEMENTS, Operand, OperandType, Operator, Reference
from difftest.cases.layout import Mesh, Shard
from difftest.cases.model import Model
from generators.operators import chains
from generators.operators.singles import singles
from generators.operators.table import OWN, OperatorEntry, all_modules, entries, header, operators, usable
from generators.operators.undefined import undefined
from generators.operators.variants import with_out

PAIR, GRID = Mesh((("tp", 2),)), Mesh((("dp", 2), ("tp", 2)))
NAMES = [entry.name for entry in usable()]


SEGMENTS = ("_segment_reduce.lengths", "_segment_reduce.offsets")


def test_an_operand_has_the_same_json_after_pickle() -> None:
    operand = Operand(shape=(2,), memory="strided")
    again = pickle.loads(pickle.dumps(operand))  # noqa: S301  its own
    assert json.dumps(str(operand)) == json.dumps(str(again))
    assert Model(layers=(_add(operand),)) == pickle.loads(pickle.dumps(Model(layers=(_add(operand),))))  # noqa: S301


def _add(operand: Operand) -> Operator:
    return Operator(operator="add", call="torch.add", operands={"input": operand})


def test_every_entry_has_samples_or_a_reason_for_its_exclusion() -> None:
    assert all(bool(entry.samples) != bool(entry.excluded) for entry in entries().values())
    assert all(len(entry.excluded) >= len("needs CUDA") for entry in entries().values() if not entry.samples)


def test_every_sample_is_a_valid_operator() -> None:
    invalid = {entry.name: reasons for entry in usable() if (reasons := list(what_is_invalid(entry)))}
    assert not invalid


def what_is_invalid(entry: OperatorEntry) -> Iterator[str]:
    """Yield what is wrong with an entry's samples and with its arguments that torch rejects."""
    for index, sample in enumerate(entry.samples):
        for form in (entry.form, *sample.forms):
            operator = entry.operator(sample, form=form)
            yield from refused(operator)
            if set(operator.references()) != set(operator.operands):
                yield f"sample {index} as {form} has operands that it does not use"
        if not sample.results:
            yield f"sample {index} has no result"
        if any(math.prod(one.shape) > MOST_ELEMENTS for one in sample.operands.values()):
            yield f"sample {index} has an operand of more than {MOST_ELEMENTS} elements"
    for sample in entry.errors:
        yield from refused(entry.operator(sample, form=entry.form, rejects=True))


def refused(operator: Operator) -> Iterator[str]:
    """Yield why there can be no program of this operator; nothing where there can."""
    try:
        Model(layers=(operator,))
    except ValueError as error:
        yield f"{operator.form}: {error}"


def test_calls_are_dotted_names_below_torch() -> None:
    calls = {call for entry in usable() for call in entry.calls.values()}
    assert all(re.fullmatch(r"(torch|Tensor)(\.\w+)+", call) for call in calls)


@pytest.mark.long
@pytest.mark.parametrize("mesh", [PAIR, GRID], ids=str)
def test_every_operand_is_sharded_along_each_of_its_dims(mesh: Mesh) -> None:
    uncut = {entry.name: dims - cut(entry.name, mesh) for entry in usable() if (dims := operand_dims(entry))}
    assert not {name: dims for name, dims in uncut.items() if dims}


def operand_dims(entry: OperatorEntry) -> set[tuple[str, int]]:
    """Return every dim of every operand of an entry, with the operand's name."""
    return {
        (name, dim)
        for sample in entry.samples
        for name, operand in sample.operands.items()
        for dim in range(len(operand.shape))
    }


def cut(entry: str, mesh: Mesh) -> set[tuple[str, int]]:
    """Return the operands, with the dim, that the valid single programs of an entry shard."""
    return {
        (name, placement.dim)
        for single in singles(entry, mesh)
        if not single.operator.rejects
        for name, placements in single.placements.items()
        for placement in placements
        if isinstance(placement, Shard)
    }


def test_the_first_program_of_an_entry_is_plain() -> None:
    for name in NAMES:
        first = singles(name, PAIR)[0]
        assert (first.dtype, first.regime, first.operator.rejects) == ("float32", "normal", False)


def test_every_variant_of_add_is_enumerated() -> None:
    own = singles("add", PAIR)
    assert {single.operator.form for single in own} == {"function", "method", "inplace", "out"}
    assert {single.dtype for single in own} == {"float32", "bfloat16", "float16", "float64"}
    dtypes = {one.dtype for single in own for one in single.operator.operands.values()}
    assert dtypes >= {"int32", "int64", "bool", "float64", "float32"}
    memory = {one.memory for single in own for one in single.operator.operands.values()}
    assert memory == {"contiguous", "transposed", "strided", "expanded"}
    assert len({single.regime for single in own}) > 8


def test_a_result_is_written_into_an_operand_of_its_shape_without_gradients() -> None:
    entry = entries()["add"]
    sample = next(sample for sample in entry.samples if "out" in sample.forms)
    operator = with_out(entry.operator(sample, form="out"), sample.results)
    assert operator
    assert operator.operands["out"].shape == sample.results[0].shape
    assert not any(operand.gradient for operand in operator.operands.values())


def test_a_case_file_can_hold_every_operand_for_a_result() -> None:
    formed = [
        with_out(entry.operator(sample, form="out"), sample.results)
        for entry in usable()
        for sample in entry.samples
        if "out" in sample.forms
    ]
    dtypes = {operator.operands["out"].dtype for operator in formed if operator}
    assert dtypes <= set(get_args(OperandType))


def test_a_result_of_a_dtype_that_operands_do_not_have_is_not_written_into_one() -> None:
    entry = entries()["hash_tensor"]
    sample = entry.samples[0]
    assert [result.dtype for result in sample.results] == ["uint64"]
    assert with_out(entry.operator(sample, form="out"), sample.results) is None


def test_a_call_whose_tensors_belong_on_the_host_or_that_reads_outside_of_them_is_no_sample() -> None:
    apart = ("linspace.tensor_overload", "logspace.tensor_overload", *SEGMENTS)
    assert all(entries()[name].excluded for name in apart)
    sections = [len(sample.operands) for sample in entries()["tensor_split"].samples]
    assert set(sections) == {1}, "sections that are a tensor are taken on the host"


def test_a_number_that_an_integer_type_cannot_hold_may_become_any() -> None:
    converted = sampled("short")
    assert "C++" in undefined(converted, dtype="float32", regime="nonfinite")
    assert not undefined(converted, dtype="float32", regime="normal")


def test_what_the_documentation_leaves_open_is_labelled_where_it_applies() -> None:
    plain = sampled("sort")
    assert not undefined(plain, dtype="float32", regime="normal")
    assert "stable" in undefined(plain, dtype="float32", regime="ties")
    assert "stable" in undefined(plain, dtype="bfloat16", regime="normal")
    memory = {name: msgspec.structs.replace(one, memory="expanded") for name, one in plain.operands.items()}
    tied = msgspec.structs.replace(plain, operands=memory)
    assert "stable" in undefined(tied, dtype="float32", regime="normal"), "its elements are all the same one"


def test_the_determinant_of_a_matrix_that_may_be_singular_is_left_open() -> None:
    determinant = sampled("linalg.slogdet")
    assert "rounding" in undefined(determinant, dtype="float32", regime="ties")
    assert not undefined(determinant, dtype="float32", regime="normal")


def test_the_mean_that_a_layer_norm_saves_is_left_open_of_infinite_numbers() -> None:
    saved = sampled("native_layer_norm")
    assert "infinite" in undefined(saved, dtype="float32", regime="nonfinite")
    assert not undefined(saved, dtype="float32", regime="extreme")


@pytest.mark.parametrize("name", ["bucketize", "searchsorted"])
def test_the_place_in_a_sequence_is_left_open_as_the_drawn_one_is_not_sorted(name: str) -> None:
    found = sampled(name)
    assert not undefined(found, dtype="float32", regime="normal")
    assert "increasing" in undefined(found, dtype="float32", regime="nonfinite")
    sorter = Operand(shape=(4,), dtype="int64")
    found = msgspec.structs.replace(found, operands={**found.operands, "sorter": sorter})
    assert "increasing" in undefined(found, dtype="float32", regime="normal")


@pytest.mark.parametrize(("name", "learns"), [("scatter_reduce.prod", True), ("scatter_add", False)])
def test_an_index_has_one_row_beside_a_source_of_several(name: str, learns: bool) -> None:
    given = [one.operator.operands for one in singles(name, PAIR) if not one.operator.rejects]
    fewer = [own for own in given if own["index"].shape < own["src"].shape]
    assert {own["index"].shape[0] for own in fewer} == {1}
    assert {own["src"].gradient for own in fewer} == {learns}


def test_what_counts_as_zero_is_left_open_of_subnormal_numbers_alone() -> None:
    found = sampled("nonzero")
    assert "subnormal" in undefined(found, dtype="float32", regime="denormal")
    assert not undefined(found, dtype="float32", regime="zeros")


def test_a_factor_of_what_may_not_be_positive_definite_is_left_open() -> None:
    drawn, given = sampled("linalg.cholesky_ex"), sampled("linalg.cholesky")
    fed = msgspec.structs.replace(drawn, operands={}, arguments=(Reference("0.output"),))
    for open_ in (drawn, fed):
        assert "positive definite" in undefined(open_, dtype="float32", regime="normal")
    assert not undefined(given, dtype="float32", regime="normal")


def test_what_a_batch_norm_saves_without_training_is_left_open() -> None:
    evaluates, trains = sampled("native_batch_norm"), sampled("native_batch_norm", 1)
    assert "saved" in undefined(evaluates, dtype="float32", regime="normal")
    assert not undefined(trains, dtype="float32", regime="normal")


def sampled(name: str, index: int = 0) -> Operator:
    entry = entries()[name]
    return entry.operator(entry.samples[index], form=entry.form)


def test_a_solution_is_left_open_where_the_diagonal_may_hold_a_zero() -> None:
    solved = sampled("triangular_solve")
    assert "NaN" in undefined(solved, dtype="float32", regime="signed_zeros")
    assert not undefined(solved, dtype="bfloat16", regime="nonfinite")


@pytest.mark.parametrize("name", ["linalg.tensorinv", "linalg.solve", "pinverse"])
def test_the_inverse_of_an_ill_conditioned_matrix_is_left_open(name: str) -> None:
    inverted = sampled(name)
    assert "ill-conditioned" in undefined(inverted, dtype="float32", regime="extreme")
    assert not undefined(inverted, dtype="float32", regime="normal")


def test_differences_of_nan_that_are_counted_are_left_open_and_other_distances_are_not() -> None:
    entry = entries()["cdist"]
    every = [entry.operator(sample, form=entry.form) for sample in entry.samples]
    counted = [0.0 in one.arguments for one in every]
    assert [bool(undefined(one, dtype="float32", regime="nonfinite")) for one in every] == counted
    assert {*counted} == {True, False}
    assert not any(undefined(one, dtype="float32", regime="normal") for one in every)


@pytest.mark.parametrize("name", ["nn.functional.conv_transpose2d", "nn.Conv2d", "nn.MaxPool2d"])
def test_a_padding_beside_infinities_is_left_open_and_a_module_is_as_its_function(name: str) -> None:
    entry = {**entries(), **all_modules()}[name]
    called = entry.operator(entry.samples[0], form=entry.form)
    assert not undefined(called, dtype="float32", regime="normal")
    assert undefined(called, dtype="float32", regime="nonfinite")
    assert ("infinite weight" in undefined(called, dtype="float32", regime="nonfinite")) == ("onv" in name)
    assert bool(undefined(called, dtype="float32", regime="ties")) == ("Pool" in name)


@pytest.mark.parametrize("name", ["nn.functional.layer_norm", "nn.LayerNorm"])
def test_the_gradient_of_layer_norm_beside_infinities_is_left_open(name: str) -> None:
    entry = {**entries(), **all_modules()}[name]
    called = entry.operator(entry.samples[0], form=entry.form)
    assert not undefined(called, dtype="float32", regime="extreme")
    assert "subtracts infinities" in undefined(called, dtype="float32", regime="nonfinite")


def test_what_is_unpooled_to_one_place_twice_is_left_open() -> None:
    entry = entries()["nn.functional.max_unpool3d"]
    labels = {
        len({*places}) < len(places): undefined(operator, dtype="float32", regime="normal")
        for operator in (entry.operator(sample, form=entry.form) for sample in entry.samples)
        if (places := operator.operands["indices"].values)
    }
    assert "repeat values" in labels[True]
    assert not labels.get(False)


@pytest.mark.parametrize("name", ["polygamma.polygamma_n_1", "special.zeta", "aten.polygamma_"])
def test_a_function_that_counts_up_from_negative_numbers_gets_none_far_below_zero(name: str) -> None:
    assert all({"extreme", "offset"} <= {*sample.refused} for sample in entries()[name].samples)


def test_what_chains_are_made_of_is_in_the_table() -> None:
    plain = {*chains.UNARY, *chains.BINARY, *chains.KEEPS_NOTHING, *chains.UPDATES, *chains.VIEWS}
    assert plain <= set(NAMES)
    assert all("inplace" in entries()[name].calls for name in chains.UPDATES)


def test_most_of_the_database_is_usable() -> None:
    own = [name for name in operators() if name.startswith(OWN)]
    assert header().entries == len(operators()) - len(own) == 696
    assert len(own) >= 75
    assert len(usable()) >= 450
    assert sum(entry.gradient for entry in usable()) >= 380
    assert sum(len(entry.errors) for entry in usable()) >= 200


def test_an_entry_refuses_unknown_fields() -> None:
    assert OperatorEntry.__struct_config__.forbid_unknown_fields
