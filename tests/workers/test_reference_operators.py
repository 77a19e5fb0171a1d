"""Definitions of operators: they compute what torch computes, of every sample that they take."""

import functools
import importlib
import itertools
import math
import warnings
from collections.abc import Iterator
from datetime import date
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from in_part import runs_often
from installed_packages import needs
from sample_programs import a_program

from difftest.cases import numbers
from difftest.cases.case import Case, Data
from difftest.cases.layers.operator import Items, Operand, Operator, Reference
from difftest.cases.layout import Replicate
from difftest.cases.twins import twin
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.errors import UnsupportedError
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from generators.cases import case_at
from generators.operators import table
from generators.operators.table import OperatorEntry, Sample
from workers import backends, sides
from workers.references import definition, operators
from workers.references.operators import named

SEED, PROGRAMS = 7, 60

Floats = npt.NDArray[np.float64]


def test_every_named_operator_is_a_function_of_numpy_and_no_operator_has_two_definitions() -> None:
    named_by_numpy = {*named.SAME_NAME, *named.OTHER_NAME.values()}
    assert [name for name in sorted(named_by_numpy) if not callable(getattr(np, name, None))] == []
    defined = [name for kind in plugins.names(operators.__name__) for name in operators.load(kind).FORMULAS]
    assert sorted(defined) == sorted({*defined})
    assert operators.function("torch.no_such_operator") is None


@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        ("torch.rsqrt", [4.0], 0.5),
        ("Tensor.mul", [3.0, -2.0], -6.0),
        ("Tensor.mul_", [3.0, -2.0], -6.0),
        ("torch.nn.functional.softsign", [-3.0], -0.75),
        ("torch.logit", [0.5], 0.0),
        ("torch.rsub", [1.0, 5.0], 4.0),
        ("Tensor.__rpow__", [3.0, 2.0], 8.0),
        ("torch.nn.functional.mse_loss", [1.0, 3.0], 4.0),
        ("torch.lerp", [2.0, 4.0, 0.25], 2.5),
        ("torch.nn.functional.hardswish", [1.5], 1.125),
        ("torch.linalg.vector_norm", [[3.0, -4.0]], 5.0),
        ("torch.var", [[1.0, 3.0]], 2.0),
        ("torch.logsumexp", [[0.0, 0.0], 0], math.log(2)),
        ("torch.trapezoid", [[1.0, 3.0, 5.0]], 6.0),
        ("torch.linalg.det", [[[2.0, 0.0], [7.0, 3.0]]], 6.0),
        ("torch.nn.functional.cross_entropy", [[0.0, 0.0], 1], math.log(2)),
        ("torch.nn.functional.kl_div", [[0.0], [1.0]], 0.0),
        ("torch.nn.functional.triplet_margin_loss", [[[0.0]], [[0.0]], [[0.0]]], 1.0),
    ],
)
def test_an_operator_is_what_its_documentation_says(call: str, given: list[Any], expected: float) -> None:
    definition = operators.function(call)
    assert definition is not None
    tensors = [
        one if isinstance(one, int) and call == "torch.logsumexp" else np.asarray(one) for one in given
    ]
    assert definition(np, *tensors) == pytest.approx(expected, rel=1e-15, abs=1e-15)


@pytest.mark.parametrize(
    ("call", "options", "shape"),
    [
        ("torch.flatten", {"start_dim": 1}, (2, 12)),
        ("torch.transpose", {"dim0": 0, "dim1": -1}, (4, 3, 2)),
        ("torch.unsqueeze", {"dim": -1}, (2, 3, 4, 1)),
        ("torch.nn.functional.pad", {"pad": (1, -1, 2, 0)}, (2, 5, 4)),
        ("torch.select", {"dim": 1, "index_": 0}, (2, 4)),
        ("torch.tile", {}, (2, 3, 4)),
    ],
)
def test_an_operator_of_places_has_the_documented_shape(
    call: str, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    definition = operators.function(call)
    assert definition is not None
    given = () if options else ((1, 1, 1),)
    assert definition(np, np.zeros((2, 3, 4)), *given, **options).shape == shape


INPUT = Operand(shape=(4,))


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ({"call": "torch.softmax", "arguments": (Reference(name="input"), 0)}, ""),
        ({"call": "torch.round", "options": {"decimals": 3}}, "with these arguments"),
        ({"call": "torch.norm", "arguments": (Reference(name="input"), "nuc")}, "of this kind"),
        ({"call": "torch.neg", "operands": {"input": Operand(shape=(4,), dtype="int64")}}, "these tensors"),
        ({"call": "torch.polygamma"}, "no definition of an operator"),
        ({"call": "Tensor.neg_", "form": "inplace"}, ""),
        (
            {"call": "torch.neg", "operands": {"input": Operand(shape=(4,), memory="expanded")}},
            "these tensors",
        ),
    ],
)
def test_a_definition_refuses_arguments_that_it_does_not_have(operator: dict[str, Any], words: str) -> None:
    plain = {"operands": {"input": INPUT}, "arguments": (Reference(name="input"),)}
    case = a_program(Operator(operator="an operator", **plain | operator))
    reason = operators.lacks(case)
    assert words in reason
    assert bool(words) == bool(reason)


def test_a_definition_that_fails_is_refused_and_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(np: Any, x: Any) -> Any:  # noqa: ANN401  arrays
        msg = "no such dim"
        raise IndexError(msg)

    monkeypatch.setattr(operators, "function", lambda _call: failing)
    case = a_program(
        Operator(
            operator="neg", call="torch.neg", operands={"input": INPUT}, arguments=(Reference(name="input"),)
        )
    )
    with pytest.raises(UnsupportedError, match="no such dim"):
        definition.defined(case, Trace(steps=({},)))


def test_what_is_written_into_a_given_tensor_has_no_loss() -> None:
    plain: dict[str, Any] = {"operands": {"input": INPUT}, "arguments": (Reference(name="input"),)}
    out = {
        "form": "out",
        "operands": {"input": INPUT, "out": INPUT},
        "options": {"out": Reference(name="out")},
    }
    for more, has_loss in (({}, True), (out, False)):
        case = a_program(Operator(operator="an operator", call="torch.neg", **plain | more))
        weights = numbers.weights(case)
        computed = operators.results(case, weights, np)
        assert (computed["0.output"] == -weights["0.input"]).all()
        assert bool(operators.cotangents(case, computed)) == has_loss


def defined(entry: OperatorEntry) -> Iterator[tuple[Case, Sample]]:
    """The twins of an operator's samples that its definition takes."""
    for sample in entry.samples:
        case = twin(a_program(entry.operator(sample, form=entry.form)))
        if not operators.lacks(case):
            yield case, sample


@pytest.mark.long
def test_every_definition_computes_samples_of_torchs_database_and_every_sample_that_it_takes() -> None:
    computed, wrong = set[str](), []
    for entry in table.usable():
        for case, sample in defined(entry):
            with np.errstate(all="ignore"):
                results = operators.results(case, numbers.weights(case), np)
            actual = {name.removeprefix("0."): value.shape for name, value in results.items()}
            expected = {result.name: result.shape for result in sample.results}
            wrong += [] if actual == expected else [(entry.name, actual, expected)]
            computed.add(operators.plain_name(entry.calls[entry.form]))
    assert wrong == []
    assert [name for name in operators.formulas() if name not in computed] == []


@pytest.mark.slow
@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_definitions_agree_with_torch_on_a_sample_with_its_gradients(each: int) -> None:
    needs("torch")
    needs("jax")
    first = [next(defined(entry), None) for entry in table.usable() if runs_often(entry.name, each)]
    with warnings.catch_warnings(action="ignore"):  # torch.cross warns of a sample without `dim`
        verdicts = {case.model.layers[0].title: compared(case).verdict for case, _ in filter(None, first)}
    assert {name: verdict for name, verdict in verdicts.items() if verdict != "agree"} == {}
    assert len(verdicts) * each >= 0.8 * len(operators.formulas())


def compared(case: Case) -> Comparison:
    """A twin by its definitions and by torch."""
    truth, actual = (ran(case, backends.load(name)) for name in ("oracle", "definitions"))
    return compare(case, "definitions", sides.DEFINITION, truth, actual)


@pytest.mark.slow
def test_an_alpha_that_torch_has_in_float32_is_found_and_is_in_the_ledger() -> None:
    needs("torch")
    needs("jax")
    (case,) = itertools.islice((case for case, _ in defined(table.operators()["nn.functional.celu"])), 1, 2)
    (shown,) = compared(case).divergences
    entry = read_ledger().entry(shown, case, date(2026, 11, 28))
    assert entry
    assert "celu_alpha_in_float32" in entry.upstream
    forward = msgspec.structs.replace(shown, check="outputs", stage=Stage.FORWARD)
    assert read_ledger().entry(forward, case, date(2026, 11, 28)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "fault"), [("hypot", "hypot_gradient_of_zeros"), ("clamp", "clamp_between_equal_bounds")]
)
def test_torch_s_wrong_gradients_of_zeros_are_in_the_ledger(operator: str, fault: str) -> None:
    needs("torch")
    needs("jax")
    zeros = Data(batch=1, regime="signed_zeros")  # of some samples no two elements are both zero
    cases = [msgspec.structs.replace(case, data=zeros) for case, _ in defined(table.operators()[operator])]
    case, shown = next((case, shown) for case in cases for shown in compared(case).divergences)
    entry = read_ledger().entry(shown, case, date(2026, 11, 28))
    assert entry
    assert fault in entry.upstream
    assert shown.stage is Stage.BACKWARD
    other = msgspec.structs.replace(shown, nature="atan2, not NaN")
    assert read_ledger().entry(other, case, date(2026, 11, 28)) is None


@pytest.mark.slow
def test_the_derivative_of_xlogy_and_xlog1py_at_0_is_the_logarithm() -> None:
    needs("torch")
    needs("jax")
    torch: Any = importlib.import_module("torch")
    jax = importlib.import_module("jax")
    for function, y in (("xlogy", 0.5), ("special.xlog1py", -0.5)):
        formula, zero = operators.formulas()[function], torch.zeros((), requires_grad=True)
        functools.reduce(getattr, function.split("."), torch)(zero, torch.tensor(y)).backward()
        ours = jax.grad(lambda x, formula=formula, y=y: formula(jax.numpy, x, y))(0.0)
        assert zero.grad.item() == pytest.approx(ours.item()) == pytest.approx(math.log(0.5))


@pytest.mark.slow
@pytest.mark.parametrize("call", ["torch.std", "torch.std_mean", "torch.norm", "torch.linalg.vector_norm"])
def test_the_derivative_of_a_root_is_0_at_0_as_torch_has_it(call: str) -> None:
    needs("torch")
    needs("jax")
    torch: Any = importlib.import_module("torch")
    jax = importlib.import_module("jax")
    formula, zeros = operators.function(call), torch.zeros(3, requires_grad=True)
    assert formula

    def first(result: Any) -> Any:  # noqa: ANN401  an array of JAX or a tensor
        return result[0] if isinstance(result, tuple) else result

    function = call.removeprefix("torch.").split(".")
    first(functools.reduce(getattr, function, torch)(zeros)).backward()
    ours = jax.grad(lambda x: first(formula(jax.numpy, x)))(np.zeros(3))
    assert zeros.grad.tolist() == ours.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "batch"), [("torch.addmm", ()), ("torch.addbmm", (4,)), ("torch.baddbmm", (4,))]
)
def test_a_product_of_no_columns_adds_nothing(call: str, batch: tuple[int, ...]) -> None:
    formula = operators.function(call)
    assert formula is not None
    result = formula(np, np.full(3, -0.0), np.zeros((*batch, 2, 0)), np.zeros((*batch, 0, 3)))
    assert result.shape[-2:] == (2, 3)
    assert np.signbit(result).all()


@pytest.mark.parametrize(("call", "base"), [("torch.logaddexp", math.e), ("torch.logaddexp2", 2.0)])
def test_the_logarithm_of_a_sum_of_powers_has_its_values_at_infinities(call: str, base: float) -> None:
    formula = operators.function(call)
    assert formula is not None
    one, other = np.array([math.inf, -math.inf, -math.inf, 1.0]), np.array([math.inf, -math.inf, 1.0, 1.0])
    expected = [math.inf, -math.inf, 1.0, 1.0 + math.log(2.0, base)]
    assert formula(np, one, other).tolist() == pytest.approx(expected)


@pytest.mark.slow
def test_the_derivative_of_a_logarithm_of_a_sum_does_not_lose_what_a_large_result_rounds_away() -> None:
    needs("jax")
    jax, experimental = (importlib.import_module(name) for name in ("jax", "jax.experimental"))
    formula = operators.function("torch.logaddexp")
    assert formula is not None
    with experimental.enable_x64():
        share = jax.grad(lambda x: formula(jax.numpy, x, 1e8))
        assert float(share(1e8 + 1.0)) == pytest.approx(1.0 / (1.0 + math.exp(-1.0)), rel=1e-14)
        assert float(share(1e8)) == 0.5


def test_the_logarithm_of_one_and_a_number_is_accurate_where_xla_compiles_it() -> None:
    needs("jax")
    jax = importlib.import_module("jax")
    random = np.random.default_rng(0)
    values = np.concatenate(
        [10.0 ** random.uniform(-12, 4, 4096), -(10.0 ** random.uniform(-12, -1e-3, 4096))]
    )
    with jax.experimental.enable_x64():
        formula = operators.function("torch.log1p")
        assert formula is not None
        result = np.asarray(jax.jit(functools.partial(formula, jax.numpy))(values))
    assert np.abs(result / np.log1p(values) - 1.0).max() < 8 * 2.0**-53


def test_a_normalization_of_groups_has_torchs_order_at_an_infinite_weight() -> None:
    formula = operators.function("torch.nn.functional.group_norm")
    assert formula is not None
    values, weight = np.array([[-1.0, -3.0, 1.0, 2.0]]), np.array([math.inf, 1.0, 1.0, 1.0])
    with np.errstate(invalid="ignore"):
        result = formula(np, values, 2, weight, np.ones(4), 0.0)
    assert np.isnan(result[0, 0])
    assert result[0, 1:].tolist() == pytest.approx([0.0, 0.0, 2.0])


def gradient_beside(of_torch: Floats, *layers: Operator) -> Floats:
    """The gradient of the first operator's `input` by the definitions, where torch's is this."""
    case = a_program(*layers, mesh=(("dp", 1),))
    placed = Sharded(
        shape=of_torch.shape, dtype="float64", placements=(Replicate(),), pieces={0: np.asarray(of_torch)}
    )
    (step,) = definition.defined(case, Trace(steps=({(Stage.BACKWARD, "0.input"): placed},))).steps
    return step[Stage.BACKWARD, "0.input"].pieces[0]


def of_two(operator: str, *values: tuple[float, ...]) -> Operator:
    """An operator of `input` and `other` with these values; without values, of the first result twice."""
    operands = {
        name: Operand(shape=(len(own),), values=own)
        for name, own in zip(("input", "other"), values, strict=False)
    }
    arguments = tuple(Reference(name=name) for name in operands) or (Reference(name="0.output"),) * 2
    return Operator(operator=operator, call=f"torch.{operator}", operands=operands, arguments=arguments)


@pytest.mark.slow
def test_gradients_at_an_origin_are_torchs_and_others_are_the_definitions() -> None:
    needs("jax")
    angle = of_two("atan2", (0.0, 1.0), (0.0, 1.0))
    origin, elsewhere = gradient_beside(np.full(2, 7.0), angle)
    assert origin == 7.0
    cotangent = numbers.cotangent(a_program(angle, mesh=(("dp", 1),)), "0.output", (2,))
    assert elsewhere == pytest.approx(cotangent[1] / 2)


@pytest.mark.slow
def test_nan_that_meets_a_derivative_of_zero_is_torchs_and_a_number_is_not() -> None:
    """The least element is 0, of which `atan2` has no derivative."""
    needs("jax")
    given = {"input": Operand(shape=(3,), values=(0.0, 1.0, 2.0))}
    along = Reference(name="input"), Items(items=(0,))
    least = Operator(operator="amin", call="torch.amin", operands=given, arguments=along)
    gradient = gradient_beside(np.array([7.0, math.nan, 7.0]), least, of_two("atan2"))
    np.testing.assert_array_equal(gradient, [7.0, math.nan, 0.0])


@pytest.mark.slow
def test_nan_behind_a_derivative_of_zero_is_torchs_where_a_later_operator_has_none() -> None:
    """`copysign` has the derivative 0 at 0, behind which `atan2` has none."""
    needs("jax")
    signed, nan = of_two("copysign", (0.0, 1.0), (1.0, 1.0)), np.full(2, math.nan)
    assert math.isnan(gradient_beside(nan, signed, of_two("atan2"))[0])
    assert gradient_beside(nan, signed)[0] == 0.0


@pytest.mark.slow
def test_gradients_beside_a_product_of_no_columns_are_the_drawn_numbers() -> None:
    """XLA lays a constant out wrong there (`constant_beside_empty_product_on_xla`)."""
    needs("jax")

    def of(operator: str, operands: dict[str, tuple[int, ...]], *names: str) -> Operator:
        given = {name: Operand(shape=shape) for name, shape in operands.items()}
        arguments = tuple(map(Reference, names))
        return Operator(operator=operator, call=f"torch.{operator}", operands=given, arguments=arguments)

    layers = (
        of("neg", {"input": (5, 10)}, "input"),
        of("mm", {"input": (0, 5)}, "input", "0.output"),
        of("mm", {"input": (5, 0)}, "input", "1.output"),
    )
    cotangent = numbers.cotangent(a_program(*layers, mesh=(("dp", 1),)), "0.output", (5, 10))
    np.testing.assert_array_equal(gradient_beside(np.zeros((5, 10)), *layers), -cotangent)


@pytest.mark.slow
def test_gradients_at_infinities_are_torchs() -> None:
    needs("torch")
    needs("jax")
    drawn = (twin(case_at(SEED, index, paths=("operators",), max_world_size=2)) for index in range(PROGRAMS))
    reference = backends.load("definitions")
    case = next(case for case in drawn if not reference.unsupported(case))
    infinite = case.changed("data", regime="nonfinite")
    words = [ran(one, reference).environment[definition.COMPUTED] for one in (case, infinite)]
    assert ["without derivatives" in computed for computed in words] == [False, True]


@pytest.mark.slow
def test_definitions_agree_with_torch_on_generated_programs() -> None:
    needs("torch")
    needs("jax")
    reference, titles, wrong = backends.load("definitions"), set[str](), []
    for index in range(PROGRAMS):
        case = twin(case_at(SEED, index, paths=("operators",), max_world_size=2))
        if not reference.unsupported(case):
            titles |= {layer.title for layer in case.model.layers}
            comparison = compared(case)
            wrong += [] if comparison.verdict == "agree" else [(case.id, comparison.reason)]
    assert wrong == []
    assert len(titles) > PROGRAMS / 4


def ran(case: Case, backend: backends.Backend) -> Trace:
    """A run in this process."""
    train = importlib.import_module("workers.training.train").train
    with backend.session(case, 0, "") as joined:
        return joined.replay(lambda session: train(case, session, lambda *_: None), joined)


@pytest.mark.slow
def test_tanh_of_jax_arrays_is_within_four_units_in_the_last_place() -> None:
    needs("jax")
    jax = importlib.import_module("jax")
    x = np.linspace(-20, 20, 10_001)
    with jax.experimental.enable_x64():
        actual = np.asarray(operators.formulas()["tanh"](jax.numpy, x))
    assert (np.abs(actual - np.tanh(x)) <= 4 * np.spacing(np.abs(np.tanh(x)))).all()


def test_the_definition_of_a_median_is_right_where_torch_reads_behind_the_tensor() -> None:
    needs("torch")
    torch: Any = importlib.import_module("torch")
    memory = np.array([0.5, 9.0, 9.0, 9.0, 9.0])
    defined, _ = operators.load("reductions").FORMULAS["median"](np, np.full(5, memory[0]), 0)
    assert defined == memory[0]
    torchs = torch.from_numpy(memory)[:1].expand(5).median(0).values.item()
    assert torchs == memory[1], "torch 2.9: known/median_of_expanded.py"


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4), (1,)])
@pytest.mark.parametrize("missing", [False, True])
def test_medians_are_those_of_torch_with_their_places(shape: tuple[int, ...], *, missing: bool) -> None:
    needs("torch")
    torch: Any = importlib.import_module("torch")
    x = np.random.default_rng(0).normal(size=shape)
    if missing:
        x.flat[0] = np.nan
    for name, arguments in (("median", (-1, True)), ("nanmedian", (0,)), ("kthvalue", (1, 0, True))):
        expected = getattr(torch, name)(torch.from_numpy(x), *arguments)
        defined = operators.load("reductions").FORMULAS[name](np, x, *arguments)
        assert np.array_equal(expected.values.numpy(), defined[0], equal_nan=True)
        places = ~np.isnan(defined[0])
        assert np.array_equal(expected.indices.numpy()[places], defined[1][places])
