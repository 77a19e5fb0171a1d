"""Measures, for samples of torch's OpInfo database, the simulated rounding noise beside the real errors.

A sample runs in float64, four times with simulated rounding, in its own dtype by torch's kernels on the CPU,
and by XLA's on one device. The loss is the sum of all results times drawn cotangents, as that of a program.

Values are drawn again until enough elements have errors. A rounding error is uniform: that of a single
element is below a third of its standard deviation in 19 % of the draws, however right the deviation is.
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks.floors.record import Record
from difftest.cases.case import DType
from difftest.cases.draws import round_to
from difftest.cases.layers.operator import MOST_ELEMENTS
from difftest.cases.layout import Mesh, replicated
from difftest.judge.noise import (
    FLOORS_MOST,
    SAMPLES,
    SAMPLES_WHEN_IN_DOUBT,
    THRESHOLD,
    floor,
    in_floors,
    spread,
)
from difftest.judge.outcome import Array, Tensors, Trace
from difftest.judge.stage import Stage
from workers.training.dtypes import default_dtype
from workers.training.perturb import coarsest
from workers.training.perturb_program import perturbed
from workers.training.pieces import sharded, values
from workers.training.rounding import classes, operator_name

ENOUGH = 24
"""So many elements of every tensor have errors, or values are drawn `MOST_DRAWS` times."""

MOST_DRAWS = 12

ALONE = replicated(Mesh((("dp", 1),)))
FLOATS = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}
COMPLEX = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
WIDE = FLOATS | COMPLEX
"""What the oracle computes in instead."""


def name_of(info: Any) -> str:  # noqa: ANN401  torch's OpInfo
    """The name of an entry of the database, with that of its variant."""
    return f"{info.name}.{info.variant_test_name}".removesuffix(".")


def measured(info: Any, dtype: DType, most: int, *, xla: bool) -> Iterator[Record]:  # noqa: ANN401
    """The records of at most `most` samples of an operator, spread over all that the database has."""
    wanted = getattr(torch, dtype)
    if wanted not in info.dtypes:
        return
    for index in _chosen(_drawn(info, dtype, 0), most):
        place, errors = Record(operator=name_of(info), dtype=dtype, sample=index), Counter[str]()
        try:
            for draw in range(MOST_DRAWS):
                for record in _sample(_Sample(info, _drawn(info, dtype, draw)[index], dtype), place, xla=xla):
                    errors[record.tensor] += record.wrong
                    yield record
                if min(errors.values()) >= ENOUGH or not any(errors.values()):
                    break
        except Exception as error:  # noqa: BLE001  whatever an operator raises
            yield msgspec.structs.replace(place, reason=_reason(error))


def _drawn(info: Any, dtype: DType, seed: int) -> list[Any]:  # noqa: ANN401  torch's OpInfo
    """The samples of an operator that are not too large, with values of `seed`."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  OpInfo draws from it
    random.seed(seed)
    wanted = getattr(torch, dtype)
    gradients = info.supports_autograd and wanted in info.supported_backward_dtypes("cpu")
    return [
        sample
        for sample in info.sample_inputs("cpu", wanted, requires_grad=gradients, set_seed=False)
        if _elements(sample) <= MOST_ELEMENTS
    ]


def _chosen(samples: Sequence[Any], most: int) -> list[int]:
    """The indices of at most `most` samples, spread evenly."""
    return sorted({int(at) for at in np.linspace(0, len(samples) - 1, min(most, len(samples)))})


def _elements(sample: Any) -> int:  # noqa: ANN401  torch's SampleInput
    given = tree_leaves((sample.input, sample.args, sample.kwargs))
    return max((value.numel() for value in given if isinstance(value, Tensor)), default=0)


@dataclasses.dataclass(frozen=True)
class _Sample:
    info: Any
    sample: Any
    dtype: DType

    def run(self, move: Callable[[Tensor], Tensor], *, wide: bool = False) -> Tensors:
        """All results and gradients, computed from tensors that `move` has moved; those are its leaves."""
        leaves: list[Tensor] = []

        def given(value: Any) -> Any:  # noqa: ANN401  any argument
            if isinstance(value, Tensor):
                leaf = move(value.detach()).requires_grad_(value.requires_grad)
                leaves.append(leaf)
                return leaf
            return WIDE.get(value, value) if wide and isinstance(value, torch.dtype) else value

        sample = self.sample
        one, args, kwargs = tree_map(given, (sample.input, sample.args, sample.kwargs))
        result = sample.output_process_fn_grad(self.info.op(one, *args, **kwargs))
        results = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        read = {(Stage.FORWARD, str(at)): tensor for at, tensor in enumerate(results)}
        trained = [leaf for leaf in leaves if leaf.requires_grad]
        losses = [self._loss(at, t, move) for at, t in enumerate(results) if t.requires_grad]
        if trained and losses:
            total = torch.stack(losses).sum()
            gradients = torch.autograd.grad(total, trained, allow_unused=True)
            read |= {(Stage.BACKWARD, str(at)): g for at, g in enumerate(gradients) if g is not None}
        return {key: sharded(t, ALONE, {0: _host(t)}) for key, t in read.items()}

    def _loss(self, at: int, result: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
        if result.is_complex():
            result = torch.view_as_real(result.resolve_conj())
        drawn = np.random.Generator(np.random.PCG64(at)).uniform(-1.0, 1.0, tuple(result.shape))
        cotangent = torch.from_numpy(np.asarray(round_to(self.dtype, drawn)))
        wide = result if result.dtype == torch.float64 else result.float()
        return (wide * move(cotangent.to(wide.dtype))).sum()


def _host(tensor: Tensor) -> Array:
    return values(tensor.detach().cpu()).copy()


def _widened(tensor: Tensor) -> Tensor:
    return tensor.to(WIDE.get(tensor.dtype, tensor.dtype), copy=True)


def _sample(sample: _Sample, place: Record, *, xla: bool) -> Iterator[Record]:
    with _Draws() as draws:
        native, again = sample.run(torch.clone), sample.run(torch.clone)
    if draws.drawn or any(
        not np.array_equal(t.pieces[0], again[key].pieces[0], equal_nan=True) for key, t in native.items()
    ):
        yield msgspec.structs.replace(place, reason="random")
        return
    candidate = None
    if xla:
        try:
            candidate = _on_xla(sample)
        except Exception as error:  # noqa: BLE001
            yield msgspec.structs.replace(place, reason=f"xla: {_reason(error)}")
    for count in (SAMPLES, SAMPLES_WHEN_IN_DOUBT):  # as a campaign does
        records = list(
            _compared(place, *_simulated(sample, _rounded(sample, native), count), native, candidate)
        )
        if all(max(record.native_worst, record.xla_worst) <= THRESHOLD for record in records):
            break
    yield from records


def _rounded(sample: _Sample, native: Tensors) -> DType:
    """The dtype whose rounding is simulated: as in a program, the coarsest of the results'."""
    return coarsest((t.dtype for (stage, _), t in native.items() if stage is Stage.FORWARD), sample.dtype)


def _simulated(sample: _Sample, rounded: DType, count: int) -> tuple[Tensors, list[Tensors]]:
    """The run in float64, and those with simulated rounding."""
    with default_dtype(torch.float64):
        truth, simulated = sample.run(_widened, wide=True), []
        for seed in range(count):
            with perturbed(rounded, seed, program=True):
                simulated.append(sample.run(_widened, wide=True))
    return truth, simulated


class _Draws(TorchDispatchMode):
    """Whether any random number is drawn: OpInfo seeds the generator before each call."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drawn = False

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        self.drawn |= classes().get(operator_name(func)) == "random"
        return func(*args, **(kwargs or {}))


def _on_xla(sample: _Sample) -> Tensors:
    import torch_xla  # noqa: PLC0415  not needed without --xla

    tensors = sample.run(lambda tensor: tensor.to(torch_xla.device(), copy=True))
    torch_xla.sync()
    return tensors


def _compared(
    place: Record, truth: Tensors, simulated: Sequence[Tensors], native: Tensors, candidate: Tensors | None
) -> Iterator[Record]:
    runs = [Trace(steps=(sample,)) for sample in simulated]
    exact = {
        key: dataclasses.replace(t, dtype=native[key].dtype) for key, t in truth.items() if key in native
    }
    whole = Trace(steps=(exact,))
    predicted = spread(whole, runs, whole, 0.0, by_element=True)[0][0]
    noise = spread(whole, runs, Trace(steps=(native,)), 0.0, by_element=True)[0][0]
    for key, tensor in exact.items():
        value, wide = tensor.pieces[0], predicted[key].pieces[0]
        decided = np.isfinite(value) & np.isfinite(wide) & np.isfinite(native[key].pieces[0])
        if tensor.is_discrete or not decided.any():
            continue
        own = _off(native[key].pieces[0], value, decided)
        record = msgspec.structs.replace(
            place,
            tensor=f"{key[0].value}.{key[1]}",
            elements=int(decided.sum()),
            scale=_size(value, decided),
            simulated=_size(wide, decided),
            wrong=int(np.count_nonzero(own)),
            native=_relative(own, wide),
            native_typical=_typical(own, wide),
            native_worst=float(in_floors(own, floor(wide)).max()),
        )
        there = candidate[key].pieces[0] if candidate is not None and key in candidate else None
        if there is not None and there.shape == value.shape:
            off = _off(there, value, decided)
            record.xla, record.xla_typical = _relative(off, wide), _typical(off, wide)
            record.xla_worst = float(in_floors(off, floor(noise[key].pieces[0])).max())
        elif there is not None:
            record.reason = f"xla: shape {there.shape} instead of {value.shape}"
        yield record


def _off(actual: Array, value: Array, decided: Array) -> Array:
    """The errors of the elements that are decided; one that is not finite there is a great error."""
    return np.nan_to_num(np.where(decided, actual, 0.0), nan=FLOORS_MOST) - np.where(decided, value, 0.0)


def _relative(errors: Array, simulated: Array) -> float:
    """Real errors in units of the simulated noise, root mean squares, of the elements that have errors."""
    wrong = errors != 0.0
    return _size(errors, wrong) / (_size(simulated, wrong) or 1.0) if wrong.any() else 0.0


def _typical(errors: Array, simulated: Array) -> float:
    """The median of the real errors that are not 0, each in units of its element's simulated noise."""
    wrong = errors != 0.0
    with np.errstate(divide="ignore"):
        return float(np.median(np.abs(errors[wrong]) / simulated[wrong])) if wrong.any() else 0.0


def _size(values: Array, counted: Array) -> float:
    return float(np.sqrt(np.mean(values[counted] ** 2)))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
