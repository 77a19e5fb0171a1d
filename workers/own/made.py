"""What the user's functions make: the module, a step's batch, the loss and the optimizer."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.draws import Floats, round_to
from difftest.cases.layers.own import Own
from difftest.cases.numbers import IGNORE_INDEX, Batch, Integers
from difftest.ground.errors import UsageError
from workers.own import loaded, recipes, results

COMPLEX = {torch.float64: torch.complex128}
"""The complex type beside a floating one, where it is not complex64."""

LABELS = "labels"
"""The input that is the targets too where `batch` gives a dict alone, as collators of transformers do."""

MOST_SEED = 2**31
"""The seeds that the user's functions are given are below it: numpy's take no more than 32 bits."""


def layer_of(case: Case) -> Own:
    """The case's module of the user's."""
    assert case.model.own  # noqa: S101  the caller has such a case
    return case.model.own


def module(layer: Own, seed: int) -> nn.Module:
    """The module on the host, as `build` makes it, without what a reduction has removed."""
    function = getattr(loaded.functions(layer), layer.function)
    with loaded.seeded(seed % MOST_SEED):
        made: nn.Module = function(seed % MOST_SEED)
    for path in layer.without:
        parent, _, name = path.rpartition(".")
        setattr(made.get_submodule(parent), name, Removed())
    return made


class Removed(nn.Module):
    """What a reduction puts in the place of a module: it returns its first argument."""

    def forward(self, first: Any, *_: Any, **_options: Any) -> Any:  # noqa: ANN401
        """`first`."""
        return first


def cast_to(module: nn.Module, coarse: torch.dtype, dtype: torch.dtype) -> nn.Module:
    """The module with its floating-point tensors rounded to `coarse`, in `dtype`.

    All backends thus have equal weights and buffers, whatever type they compute in.
    """

    def rounded(tensor: Tensor) -> Tensor:
        if tensor.is_complex():
            return tensor.to(COMPLEX.get(dtype, torch.complex64))
        return tensor.to(coarse).to(dtype) if tensor.is_floating_point() else tensor

    module._apply(rounded)  # noqa: SLF001  what `Module.to` calls, which makes complex buffers real
    return module


def batch(case: Case, step: int) -> Batch:
    """The batch of `step`, from the user's function, with floats rounded to the case's dtype."""
    return drawn(layer_of(case), case.data.batch, seed=_seed(case, step), case=case)


def drawn(layer: Own, rows: int, *, seed: int, case: Case) -> Batch:
    """A batch of so many rows from a generator that begins at `seed`; `UsageError` where it is none."""
    generator = torch.Generator().manual_seed(seed)
    with loaded.seeded(seed):
        made = loaded.functions(layer).batch(generator, rows)
    inputs, targets = split(made, rows)
    arrays = {name: _array(tensor, case) for name, tensor in inputs.items()}
    if tuple(arrays) != layer.inputs:
        msg = f"batch gives the inputs {', '.join(arrays)}; it gave {', '.join(layer.inputs)} before"
        raise UsageError(msg)
    wanted = _array(targets, case)
    first, *others = layer.inputs
    return Batch(
        inputs=arrays[first],
        targets=wanted,
        count=_count(case, wanted),
        extras={name: arrays[name] for name in others},
    )


def split(made: Any, rows: int) -> tuple[dict[str, Tensor], Tensor]:  # noqa: ANN401  what the user gives
    """Inputs by name, and targets; `UsageError` unless all of them are tensors of so many rows."""
    if isinstance(made, Mapping) and LABELS in made:
        made = made, made[LABELS]
    if not isinstance(made, tuple) or len(made) != 2:  # noqa: PLR2004  inputs and targets
        names = f" of {', '.join(map(repr, made))}" if isinstance(made, Mapping) else ""
        msg = (
            f"batch returns {type(made).__name__}{names}; needed: a tuple (inputs, targets), or a dict of "
            f"inputs with the targets as {LABELS!r}"
        )
        raise UsageError(msg)
    inputs, targets = made
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    pairs = inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs)
    named = {str(name): tensor for name, tensor in pairs}
    for name, tensor in (*((f"input {name}", one) for name, one in named.items()), ("targets", targets)):
        if not isinstance(tensor, Tensor) or tensor.is_complex() or not tensor.dim() or len(tensor) != rows:
            shown = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            msg = f"batch(generator, {rows}) gives as {name} {shown}; needed: a real tensor of {rows} rows"
            raise UsageError(msg)
    return named, targets


def _array(tensor: Tensor, case: Case) -> Floats | Integers:
    host = tensor.detach().cpu()
    if host.is_floating_point():
        return round_to(case.dtype, host.double().numpy())
    return cast("Integers", host.numpy())


def _count(case: Case, targets: Floats | Integers) -> int:
    """What the loss is divided by: what the user's own loss is a mean over, rows or targets."""
    if case.training.loss == "mse":
        return targets.size
    if case.training.loss == "cross_entropy" or layer_of(case).mean_over == "targets":
        return max(1, int((targets != IGNORE_INDEX).sum()))
    return len(targets)


def digest(case: Case) -> str:
    """A digest of the numbers that the user's functions make here, of the weights and the first batch."""
    return _digest(case.to_json())


@cache
def _digest(text: bytes) -> str:
    case = Case.from_json(text)
    first, made = batch(case, 0), module(layer_of(case), case.seed)
    whole = hashlib.sha256(bits(made))
    for array in (first.inputs, first.targets, *first.extras.values()):
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:12]


def bits(made: nn.Module) -> bytes:
    """The numbers of a module's parameters and buffers."""
    tensors = (tensor.detach().contiguous() for tensor in (*made.parameters(), *made.buffers()))
    return b"".join(
        tensor.reshape(-1).view(torch.uint8).numpy().tobytes() for tensor in tensors if tensor.numel()
    )


def _seed(case: Case, step: int) -> int:
    text = f"{case.seed} own batch {0 if case.data.learnable else step}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) % MOST_SEED


def first_floats(outputs: Any) -> Tensor:  # noqa: ANN401  what the user's module returns
    """The first floating-point tensor in what a module returns, of which a loss is computed.

    A tensor without dims is a loss that the module returns too, and comes last.

    `UsageError` where there is none.
    """
    return next(iter(results.floats(outputs).values()))


def loss_function(functions: ModuleType) -> Callable[[Any, Tensor], Tensor]:
    """The user's loss; without one, that which the module returns."""
    own: Callable[[Any, Tensor], Tensor] | None = getattr(functions, "loss", None)
    return own or (lambda outputs, _targets: recipes.own_loss(outputs))


def loss(case: Case, outputs: Any, targets: Tensor, count: int) -> Tensor:  # noqa: ANN401
    """The user's loss of the rows at hand times their share of the batch's `count` rows or targets.

    Of no targets it is 0, where torch's is NaN.

    As every loss it has float32, or float64 in the oracle: in a half type the sum of the ranks' shares would
    round.
    """
    mean = loss_function(loaded.functions(layer_of(case)))(outputs, targets)
    mean = mean if mean.dtype == torch.float64 else mean.float()
    if layer_of(case).mean_over == "rows":
        return mean * (targets.shape[0] / count)
    valid = (targets != IGNORE_INDEX).sum()
    return torch.where(valid == 0, torch.zeros_like(mean), mean) * (valid / count)


def optimizer(case: Case, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The user's optimizer."""
    made: torch.optim.Optimizer = loaded.functions(layer_of(case)).optimizer(parameters)
    return made
