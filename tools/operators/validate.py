"""Finds out, by calling them, which values, dtypes and forms of a call a sample may have."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec
import torch
from torch import Tensor

from difftest.cases.case import DType, Regime
from difftest.cases.layers.module import Module
from difftest.cases.layers.operator import Form, Items, Operand, OperandType, Operator, Reference
from generators.operators.singles import REGIMES, is_free
from generators.operators.table import Sample, SampleResult
from generators.operators.variants import INDICES, indexed, retyped, with_out
from tools.operators.choose import UnfitError
from tools.operators.encode import NoDataError, literal
from tools.operators.exclusions import COUNTING, FAR_BELOW_ZERO
from tools.operators.execute import Run, gradients, run

DRAWS = 3
FLOATING: tuple[DType, ...] = ("bfloat16", "float16", "float64")
INTEGRAL: tuple[OperandType, ...] = ("int32", "int64", "bool", "uint8", "int8", "int16")
RANGES = ((-8, 8), (0, 8), (1, 8), (0, 1))
MOST_DIFFERENT: Mapping[DType, float] = {"float32": 1e-2, "float64": 1e-6, "bfloat16": 0.5, "float16": 0.2}
"""How far results may be from those in float64, relative to the greatest, if both compute the same."""

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError)

Domain = tuple[float | None, float | None]


def validated(
    name: str, calls: Mapping[Form, str], sample: Sample, originals: Mapping[str, Tensor], domain: Domain
) -> Sample:
    """`sample` with everything that was found by calling it; `UnfitError` if no values make it work."""
    reasons = []
    for operands in _valued(sample.operands, originals, domain):
        candidate = msgspec.structs.replace(sample, operands=operands)
        try:
            runs = _checked(_operator(name, calls, candidate, next(iter(calls))))
        except UnfitError as error:
            reasons.append(str(error))
            continue
        return _extended(name, calls, candidate, runs)
    raise UnfitError(reasons[-1])


def rejected(name: str, calls: Mapping[Form, str], sample: Sample) -> bool:
    """Whether torch rejects the arguments whatever the values, in float64 too."""
    operator = _operator(name, calls, sample, next(iter(calls)))
    return all(_raises(operator, draw, wide=wide) for draw in range(2) for wide in (False, True))


def _raises(operator: Operator, draw: int, *, wide: bool) -> bool:
    try:
        run(operator, draw, wide=wide)
    except REFUSALS:
        return True
    except Exception:  # noqa: BLE001  of a kind that no user expects
        return False
    return False


def _operator(name: str, calls: Mapping[Form, str], sample: Sample, form: Form) -> Operator:
    return sample.called(name, calls[form], form)


def _valued(
    operands: Mapping[str, Operand], originals: Mapping[str, Tensor], domain: Domain
) -> Iterator[Mapping[str, Operand]]:
    """The operands with free values, with values between bounds, and with the values of the database."""
    free = {name for name, one in operands.items() if one.is_float}
    if domain != (None, None):
        yield _bounded(operands, {name: domain for name in [*operands][:1] if name in free})
    yield operands
    bounds = {name: _measured(originals[name]) for name in free}
    if any(one != (None, None) for one in bounds.values()):
        yield _bounded(operands, bounds)
    try:
        yield {
            name: msgspec.structs.replace(one, values=literal(originals[name])) if name in free else one
            for name, one in operands.items()
        }
    except NoDataError:
        return


def _bounded(operands: Mapping[str, Operand], bounds: Mapping[str, Domain]) -> Mapping[str, Operand]:
    return {
        name: msgspec.structs.replace(
            one, low=_float(bounds.get(name, (None, None))[0]), high=_float(bounds.get(name, (None, None))[1])
        )
        for name, one in operands.items()
    }


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _measured(tensor: Tensor) -> Domain:
    """Bounds that the values of the database seem to keep: they never change sign, or stay below 1."""
    if not tensor.numel():
        return None, None
    least, most = float(tensor.min()), float(tensor.max())
    if not math.isfinite(least) or not math.isfinite(most):
        return None, None
    low = 0.0 if least >= 0 else -1.0 if least >= -1 and most <= 1 else None
    high = 1.0 if most <= 1 and low is not None else None
    return (None, 0.0) if low is None and most <= 0 else (low, high)


def _checked(operator: Operator, dtype: DType = "float32", *, draws: int = DRAWS) -> list[tuple[Run, bool]]:
    """A few runs, and whether they have gradients.

    `UnfitError` if one raises, has values that are not finite, differs in a second run or from the run in
    float64, or changes an operand that it should leave alone.
    """
    runs = []
    for draw in range(draws):
        try:
            done = run(operator, draw, dtype)
            if draw == DRAWS - 1:  # torch's generator is in another state now
                _check_equal(done, run(operator, draw, dtype))
            if draw == draws - 1:
                _check_wide(done, run(operator, draw, dtype, wide=True), MOST_DIFFERENT[dtype])
            _check_finite(operator, done)
        except UnfitError:
            raise
        except Exception as error:
            text = str(error).strip().partition("\n")[0]
            raise UnfitError(f"{type(error).__name__}: {text[:150]}") from error
        runs.append((done, _has_gradient(done)))
    return runs


def _check_finite(operator: Operator, done: Run) -> None:
    for one in done.results.values():
        if one.layout is not torch.strided or one.is_quantized:
            raise UnfitError("a result is sparse or quantized")
        if not one.isfinite().all():
            raise UnfitError("a result is not finite")
    if operator.form in {"function", "method"} and not isinstance(operator, Module):  # which has buffers
        for name, one in done.after.items():
            if not torch.equal(one, done.before[name]):
                raise UnfitError("it changes an operand")


def _check_equal(done: Run, again: Run) -> None:
    for name, one in done.results.items():
        other = again.results[name]
        if one.shape != other.shape or not torch.equal(one, other):
            raise UnfitError("random: two runs give different results")


def _check_wide(done: Run, wide: Run, most: float) -> None:
    for name, one in done.results.items():
        other = wide.results[name]
        if one.shape != other.shape:
            raise UnfitError("its result has another shape in float64")
        if one.is_floating_point() and one.numel():
            scale = max(float(other.abs().max()), 1e-6)
            if float((one.double() - other).abs().max()) > most * scale:
                raise UnfitError("its result in float64 is another one")
        elif not one.is_floating_point() and not one.is_complex() and not torch.equal(one, other):
            raise UnfitError("its result in float64 is another one")


def _has_gradient(done: Run) -> bool:
    """Whether there are gradients; `UnfitError` if one is not finite."""
    try:
        computed = gradients(done)
    except Exception:  # noqa: BLE001  whatever keeps the operator from having gradients
        return False
    if not all(one.isfinite().all() for one in computed.values()):
        raise UnfitError("a gradient is not finite")
    return bool(computed)


def _extended(
    name: str, calls: Mapping[Form, str], sample: Sample, runs: Sequence[tuple[Run, bool]]
) -> Sample:
    """The sample with its forms, dtypes and results."""
    operator = _operator(name, calls, sample, next(iter(calls)))
    results = runs[0][0].results
    sample = msgspec.structs.replace(
        sample,
        gradient=all(has for _, has in runs),
        view=operator.form != "inplace" and _is_view(runs[0][0]),
        results=tuple(SampleResult(own, tuple(one.shape), _name(one.dtype)) for own, one in results.items()),
        indices=tuple(_indices(operator)),
    )
    forms = tuple(form for form in [*calls][1:] if _same(name, calls, sample, form, results))
    sample = msgspec.structs.replace(sample, forms=forms)
    if not any(one.dtype == "float" for one in sample.operands.values()):
        return sample
    if is_free(operator):
        sample = msgspec.structs.replace(sample, refused=tuple(_refused(operator)))
    floating = tuple(one for one in FLOATING if _works(operator, one))
    if isinstance(operator, Module):
        return msgspec.structs.replace(sample, dtypes=floating)
    integers, whole = _integers(operator)
    return msgspec.structs.replace(
        sample,
        dtypes=(*floating, *whole),
        integers=integers,
        mixed=tuple(_mixed(operator, integers)),
    )


def _works(operator: Operator, dtype: DType = "float32") -> bool:
    try:
        _checked(operator, dtype, draws=1)
    except UnfitError:
        return False
    return True


def _integers(operator: Operator) -> tuple[tuple[int, int], list[OperandType]]:
    """The range from which integers can be drawn, and the integer dtypes that the floats may have."""
    for low, high in RANGES:
        if _works(retyped(operator, "int64", (low, high))):
            rest = [one for one in INTEGRAL if one != "int64"]
            return (low, high), [
                "int64",
                *(one for one in rest if _works(retyped(operator, one, (low, high)))),
            ]
    return RANGES[0], ["bool"] if _works(retyped(operator, "bool", RANGES[0])) else []


def _mixed(operator: Operator, integers: tuple[int, int]) -> Iterator[OperandType]:
    """The dtypes that the last of several floating-point operands may have by itself."""
    floats = [name for name, one in operator.operands.items() if one.dtype == "float"]
    if len(floats) < 2:  # noqa: PLR2004
        return
    for dtype in (*FLOATING, "int64", "int32", "bool"):
        rest = retyped(operator, "float32", integers, only=tuple(floats[:-1]))
        coarse = dtype in {"bfloat16", "float16"}  # then the case has that dtype
        other = (
            rest if coarse else retyped(operator, cast("OperandType", dtype), integers, only=(floats[-1],))
        )
        if _works(other, cast("DType", dtype) if coarse else "float32"):
            yield cast("OperandType", dtype)


def _refused(operator: Operator) -> Iterator[Regime]:
    """The regimes with whose values torch raises, or takes minutes."""
    for regime in REGIMES:
        if regime in FAR_BELOW_ZERO and COUNTING.search(operator.operator):
            yield regime
            continue
        try:
            gradients(run(operator, 0, regime=regime))
        except Exception:  # noqa: BLE001  whatever it raises
            yield regime


def _indices(operator: Operator) -> Iterator[str]:
    """The kinds of other indices that the operator takes."""
    for kind in INDICES:
        other = indexed(operator, kind)
        if other != operator and _works(other):
            yield kind


def _same(
    name: str, calls: Mapping[Form, str], sample: Sample, form: Form, expected: Mapping[str, Tensor]
) -> bool:
    """Whether another form of the call gives the same results."""
    operator: Operator | None = _operator(name, calls, sample, form)
    if form == "out":
        operator = with_out(operator, sample.results) if operator else None
    elif not sample.arguments or not isinstance(sample.arguments[0], Reference | Items):
        return False
    try:
        done, has_gradient = _checked(operator, draws=1)[0] if operator else (None, False)
    except UnfitError:
        return False
    if done is None or (form != "out" and has_gradient != sample.gradient):
        return False
    results = done.results
    return results.keys() == expected.keys() and all(
        one.dtype == expected[own].dtype and torch.equal(one, expected[own]) for own, one in results.items()
    )


def _is_view(done: Run) -> bool:
    """Whether the first result shares memory with an operand."""
    memory = {one.untyped_storage().data_ptr() for one in done.after.values() if one.numel()}
    return next(iter(done.results.values())).untyped_storage().data_ptr() in memory


def _name(dtype: torch.dtype) -> str:
    return "float" if dtype is torch.float32 else str(dtype).removeprefix("torch.")
