"""Definitions at the edges of their domains: zeros of both signs, kinks, poles, bounds, infinities and NaN.

Every operator whose definition goes element by element is given all pairs, or triples, of edges, and those
along a dim all rows of three. Values and derivatives are torch's in float64, but for its faults that the
ledger has.
"""

import functools
import importlib
import inspect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from installed_packages import needs
from sample_programs import a_program

from difftest.cases.layers.operator import Argument, Items, Named, Operand, Operator, Reference
from difftest.cases.twins import twin
from difftest.findings.faults import KNOWN
from difftest.judge.checks.zero_signs import EITHER
from generators.operators import table
from workers.references import operators

pytestmark = pytest.mark.slow

EDGES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, math.inf, -math.inf, math.nan)
EDGES_OF_THREE = (0.0, -0.0, 0.5, 1.0, -2.0, math.inf, -math.inf, math.nan)

FAULTS = {
    "clamp": "clamp_between_equal_bounds",
    "nn.functional.binary_cross_entropy": "binary_cross_entropy_gradient_of_targets",
    "nn.functional.binary_cross_entropy_with_logits": "logits_of_minus_infinity",
    "nn.functional.celu": "celu_alpha_in_float32",
    "nn.functional.poisson_nll_loss": "poisson_gradient_of_no_events",
    "hypot": "hypot_gradient_of_zeros",
    "lerp": "lerp_to_infinity",
    "sgn": "sign_of_nan",
    "sign": "sign_of_nan",
    "special.xlog1py": "xlogy_gradient_of_zeros",
    "xlogy": "xlogy_gradient_of_zeros",
}
"""The entry of the ledger that says how torch differs."""

Floats = npt.NDArray[np.float64]


class Computed(NamedTuple):
    """The result of an operator, and the gradient of its sum for each operand that has one."""

    result: Floats
    gradients: Mapping[str, Floats]


def values(operand: Operand, edges: Sequence[float]) -> list[float]:
    """The edges within the bounds of an operand, and the bounds themselves."""
    low = -math.inf if operand.low is None else operand.low
    high = math.inf if operand.high is None else operand.high
    both = math.isfinite(low) and math.isfinite(high)
    within = [edge for edge in edges if low <= edge <= high or (math.isnan(edge) and not both)]
    return [*within, *(bound for bound in (low, high) if math.isfinite(bound))]


def with_edges(operator: Operator) -> dict[str, Floats] | None:
    """All combinations of the edges of an operator's operands, which must be floats of one shape."""
    operands = operator.operands
    if not all(one.is_float and one.values is None for one in operands.values()):
        return None
    if len({one.shape for one in operands.values()}) != 1 or len(operands) > 3:
        return None
    edges = EDGES_OF_THREE if len(operands) > 2 else EDGES
    grid = itertools.product(*(values(one, edges) for one in operands.values()))
    return dict(zip(operands, np.array(list(grid)).T, strict=True))


def unreduced(operator: Operator) -> Operator:
    """A loss of every element."""
    formula = operators.function(operator.call)
    if formula is None or "reduction" not in inspect.signature(formula).parameters:
        return operator
    return msgspec.structs.replace(operator, options={**operator.options, "reduction": "none"})


def called(operator: Operator, function: Any, tensors: Mapping[str, Any]) -> Any:  # noqa: ANN401  arrays of any module
    """What a function gives for an operator's arguments with these tensors."""

    def given(argument: Argument) -> Any:  # noqa: ANN401  what functions take
        match argument:
            case Reference():
                return tensors[argument.name]
            case Items():
                return tuple(map(given, argument.items))
            case Named(kind="number"):
                return complex(argument.text).real
        return argument

    return function(
        *map(given, operator.arguments), **{name: given(value) for name, value in operator.options.items()}
    )


def by_torch(operator: Operator, edges: Mapping[str, Floats]) -> Computed | None:
    """As torch has it; None where it does not go element by element, or takes no such tensors."""
    torch: Any = importlib.import_module("torch")
    names = operator.call.removeprefix("torch.").split(".")
    names[:1] = ["Tensor"] if names[0] == "Tensor" else names[:1]
    tensors = {
        name: torch.tensor(array, requires_grad=operator.operands[name].gradient)
        for name, array in edges.items()
    }
    try:
        result = called(operator, functools.reduce(getattr, names, torch), tensors)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    if not isinstance(result, torch.Tensor) or result.shape != next(iter(tensors.values())).shape:
        return None
    if result.requires_grad:
        result.sum().backward()
    gradients = {
        name: tensor.grad.numpy().copy() for name, tensor in tensors.items() if tensor.grad is not None
    }
    return Computed(result.detach().numpy(), gradients)


def by_definition(operator: Operator, edges: Mapping[str, Floats], wanted: Sequence[str]) -> Computed:
    """As numpy and JAX have it."""
    jax = importlib.import_module("jax")
    formula = operators.function(operator.call)
    assert formula is not None

    def result(arrays: Any, own: Mapping[str, Any]) -> Any:  # noqa: ANN401  arrays of either module
        return called(operator, functools.partial(formula, arrays), {**edges, **own})

    with np.errstate(all="ignore"):
        values_of_numpy = np.asarray(result(np, {}))
    own = {name: edges[name] for name in wanted}
    gradients = jax.grad(lambda arrays: result(jax.numpy, arrays).sum())(own) if own else {}
    return Computed(values_of_numpy, {name: np.asarray(one) for name, one in gradients.items()})


def other_values(ours: Floats, theirs: Floats) -> npt.NDArray[np.bool_]:
    """Where two results are not the same number, infinity or NaN."""
    with np.errstate(invalid="ignore"):
        return ~np.isclose(ours, theirs, rtol=1e-12, atol=1e-14, equal_nan=True)


def differing(operator: Operator, edges: Mapping[str, Floats]) -> Iterator[str]:
    """What of an operator is not as torch has it: elements with their operands."""
    theirs = by_torch(operator, edges)
    if theirs is None:
        return
    ours = by_definition(operator, edges, list(theirs.gradients))
    wrong = other_values(ours.result, theirs.result)
    if EITHER.isdisjoint({operator.operator.removeprefix("nn.functional."), operator.operator.strip("_")}):
        zeros = (ours.result == 0) & (theirs.result == 0)
        wrong |= zeros & (np.signbit(ours.result) != np.signbit(theirs.result))
    yield from described("", wrong, ours.result, theirs.result, edges)
    finite = np.isfinite([ours.result, theirs.result, *edges.values()]).all(axis=0)
    for name, gradient in ours.gradients.items():
        compared = finite & np.isfinite(
            gradient
        )  # at poles, and where there is no derivative, torch's stands
        wrong = compared & other_values(gradient, theirs.gradients[name])
        yield from described(f"gradient of {name}: ", wrong, gradient, theirs.gradients[name], edges)


def described(
    what: str, wrong: npt.NDArray[np.bool_], ours: Floats, theirs: Floats, edges: Mapping[str, Floats]
) -> Iterator[str]:
    for at in np.flatnonzero(wrong):
        operands = ", ".join(f"{name} {array[at]}" for name, array in edges.items())
        yield f"{what}{ours[at]} and torch's {theirs[at]} at {operands}"


def distinct(operator: Operator) -> str:
    """What tells an operator's samples apart when all have edges for operands."""
    bounds = [(name, one.low, one.high, one.gradient) for name, one in operator.operands.items()]
    return f"{operator.call} {bounds} {operator.arguments} {sorted(operator.options.items(), key=str)}"


def by_element() -> Iterator[tuple[Operator, dict[str, Floats]]]:
    """The calls of operators that may go element by element, each once, with edges for operands."""
    done = set[str]()
    for entry in table.usable():
        for sample in entry.samples:
            operator = unreduced(entry.operator(sample, form=entry.form))
            if distinct(operator) in done or not (edges := with_edges(operator)):
                continue
            done.add(distinct(operator))
            if not operators.lacks(twin(a_program(operator))):
                yield operator, edges


def test_definitions_are_torchs_at_all_edges() -> None:
    needs("torch")
    needs("jax")
    jax = importlib.import_module("jax")
    kernels = importlib.import_module("workers.training.reference_kernels").replaced()
    wrong = dict[str, list[str]]()
    with jax.experimental.enable_x64():
        for operator, edges in by_element():
            if found := list(differing(operator, edges)):
                wrong.setdefault(operator.operator, found)
    assert {name: found for name, found in wrong.items() if name not in FAULTS} == {}
    assert sorted(wrong) == sorted(FAULTS)
    assert kernels, "the oracle's kernels are in place of torch's while it exists"
    assert [slug for slug in FAULTS.values() if not (KNOWN / f"{slug}.toml").exists()] == []


ROWS = np.array(list(itertools.product((0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan), repeat=3)))
OTHERS = ROWS[::-1].copy(), np.roll(ROWS, 100, axis=0)

ALONG_ROWS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *(
        (name, (1,))
        for name in ("amax", "amin", "cumprod", "cumsum", "log_softmax", "logsumexp", "max", "mean")
    ),
    *(
        (name, (1,))
        for name in ("min", "nansum", "nn.functional.softmin", "prod", "softmax", "std", "sum", "var")
    ),
    *(
        (name, (p, 1))
        for name in ("norm", "linalg.vector_norm")
        for p in (0, 0.5, 1, 2, 3, math.inf, -math.inf)
    ),
    *((f"nn.functional.{name}_norm", ((3,),)) for name in ("layer", "rms")),
    *((name, ()) for name in ("diff", "nn.functional.normalize", "trapezoid")),
    *(
        (name, OTHERS[:1])
        for name in ("cosine_similarity", "linalg.cross", "linalg.vecdot", "pairwise_distance")
    ),
    ("nn.functional.cross_entropy", OTHERS[:1]),
    ("nn.functional.multilabel_soft_margin_loss", OTHERS[:1]),
    ("nn.functional.triplet_margin_loss", OTHERS),
)
"""Functions of rows, with their other arguments."""

FAULTS_OF_ROWS = {"trapezoid": "trapezoid_of_infinite_ends"}


def first(result: Any) -> Any:  # noqa: ANN401  an array of any module
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize(("name", "others"), ALONG_ROWS)
def test_definitions_are_torchs_along_rows_of_edges(name: str, others: tuple[Any, ...]) -> None:
    needs("torch")
    needs("jax")
    torch: Any = importlib.import_module("torch")
    jax = importlib.import_module("jax")
    formula = operators.formulas()[name]
    options = {"reduction": "none"} if "reduction" in inspect.signature(formula).parameters else {}
    rows = torch.tensor(ROWS, requires_grad=True)
    given = [torch.from_numpy(one) if isinstance(one, np.ndarray) else one for one in others]
    theirs = first(functools.reduce(getattr, name.split("."), torch)(rows, *given, **options))
    with np.errstate(all="ignore"):
        ours = np.asarray(first(formula(np, ROWS, *others, **options)))
    wrong = other_values(ours, theirs.detach().numpy())
    assert wrong.any() == (name in FAULTS_OF_ROWS), ROWS[wrong.reshape(len(ROWS), -1).any(axis=1)]
    theirs.sum().backward()
    if rows.grad is None:  # of a number of elements
        return
    with jax.experimental.enable_x64():
        gradient = jax.grad(lambda x: first(formula(jax.numpy, x, *others, **options)).sum())(ROWS)
    read = [ROWS, ours.reshape(len(ROWS), -1), *(one for one in others if isinstance(one, np.ndarray))]
    finite = np.isfinite(np.concatenate(read, axis=1)).all(axis=1)[:, None] & np.isfinite(gradient)
    wrong = finite & other_values(np.asarray(gradient), rows.grad.numpy())
    assert not wrong.any(), ROWS[wrong.any(axis=1)]
