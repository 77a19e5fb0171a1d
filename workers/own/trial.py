"""Runs of a user's module with few rows: in which dtypes it computes, and whether it can be compared."""

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.ground.errors import UsageError
from workers.own import loaded, made, results
from workers.own.masks import Masks
from workers.own.observed import Mixes, Random, Reads
from workers.own.precision import wide

if TYPE_CHECKING:
    from difftest.cases.case import DType

ROWS = 4
"""The rows of the batch: two for each half, so that statistics over rows exist in a half."""

HALF = (torch.bfloat16, torch.float16)

NOISE = 2.0**-6
"""The share of an output by which float32 may be off: with more, few results could be judged."""


@dataclass(frozen=True, slots=True)
class TrialBatch:
    """Inputs by name, and targets, of `ROWS` rows."""

    inputs: Mapping[str, Tensor]
    targets: Tensor
    is_dict: bool = False
    """Whether it was given as a dict alone, so that the module has what it needs to compute its loss."""

    def tensors(self) -> list[Tensor]:
        """All of them."""
        return [*self.inputs.values(), self.targets]

    def part(self, rows: slice, dtype: torch.dtype) -> "TrialBatch":
        """Some rows, with floats in `dtype`."""

        def cut(tensor: Tensor) -> Tensor:
            return tensor[rows].to(dtype) if tensor.is_floating_point() else tensor[rows]

        inputs = {name: cut(tensor) for name, tensor in self.inputs.items()}
        return TrialBatch(inputs, cut(self.targets), self.is_dict)

    def with_targets(self, targets: Tensor) -> "TrialBatch":
        """The batch with other targets, which may be an input too."""
        inputs = {name: targets if one is self.targets else one for name, one in self.inputs.items()}
        return TrialBatch(inputs, targets, self.is_dict)


@dataclass(slots=True)
class Trial:
    """A module with a batch and the name of its loss."""

    functions: ModuleType
    build: Callable[[], nn.Module]
    """Makes the module. Each run has one of its own: a copy would share the modules that a closure holds."""
    batch: TrialBatch
    loss: Literal["mse", "cross_entropy", "own"]
    running: list[str] = field(default_factory=list)
    decomposed: set[str] = field(default_factory=set)
    """The operators that the runs in float64 have computed by decompositions."""
    results: dict[str, Tensor] = field(default_factory=dict)
    """The floating-point tensors that the last run returned, the first first, but for the loss itself."""
    returns_object: bool = False
    """Whether the last run returned tensors in an object in which torch finds none."""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    """What every module gave first in the last run, by its name in messages, in the order of their ends."""
    module: nn.Module = field(init=False)
    """The module as `build` makes it, which no run changes."""
    takes_dict: bool = field(init=False)
    """Whether the module takes all inputs as one dict."""

    def __post_init__(self) -> None:
        self.module = self.build()
        self.takes_dict = takes_dict(self.module, self.batch.inputs)

    def made_in(self, dtype: torch.dtype) -> nn.Module:
        """The module, made anew, with the numbers that all backends begin with."""
        return made.cast_to(self.build(), torch.float32, dtype)

    def run(
        self,
        dtype: torch.dtype,
        rows: slice = slice(0, ROWS),
        batch: TrialBatch | None = None,
        mixes: Callable[[nn.Module, TrialBatch], Mixes] | None = None,
        module: nn.Module | None = None,
    ) -> tuple[Tensor, Tensor, nn.Module]:
        """Output and loss of some rows in `dtype`, and the module, with its gradients.

        `batch` takes the place of the trial's. The mode that `mixes` makes observes the forward. `module` is
        run in place of `made_in(dtype)`.
        `UsageError`, naming the module that was running, where that fails.
        """
        module = self.made_in(dtype) if module is None else module
        batch = (batch or self.batch).part(rows, dtype)
        named = str(dtype).removeprefix("torch.")
        with (
            self._followed(module),
            explained(f"in {named}", lambda: self.running[-1] if self.running else "the module"),
            self._wide(dtype),
        ):
            mode = mixes(module, batch) if mixes else None

            def feed(mask: Tensor) -> Tensor:
                cut = mask[rows]
                if mode:
                    mode.give(cut)
                return cut

            with Masks(0, ROWS, cast("DType", named), feed).of_step(0), mode or nullcontext():
                outputs = module(batch.inputs) if self.takes_dict else called(module, batch.inputs)
                given = results.floats(outputs)
                output = next(iter(given.values()))
                loss = self._loss(outputs, output, batch.targets)
                self.returns_object = results.hidden(outputs)
                self.results = {at: one.detach().clone() for at, one in given.items() if one is not loss}
            self.running[:] = ["the loss's backward"]
            loss.backward()
        return output.detach(), loss.detach(), module

    @contextmanager
    def _wide(self, dtype: torch.dtype) -> Iterator[None]:
        """In float64, the context of the oracle."""
        with wide() if dtype == torch.float64 else nullcontext(set[str]()) as decomposed:
            yield
        self.decomposed |= decomposed

    def _loss(self, outputs: Any, output: Tensor, targets: Tensor) -> Tensor:  # noqa: ANN401
        self.running.append("the loss")
        if self.loss == "own":
            loss = made.loss_function(self.functions)(outputs, targets)
            if not isinstance(loss, Tensor) or loss.dim():
                shown = tuple(loss.shape) if isinstance(loss, Tensor) else repr(loss)
                msg = f"loss returns {shown}; needed: a tensor without dims"
                raise UsageError(msg)
            return loss
        shape = output.shape if self.loss == "mse" else output.shape[:-1]
        if shape != targets.shape:
            msg = (
                f"the module gives {tuple(output.shape)} and batch the targets {tuple(targets.shape)}; "
                f"{self.loss} needs {tuple(shape)}, so the source needs a function loss(outputs, targets)"
            )
            raise UsageError(msg)
        if self.loss == "mse":
            return functional.mse_loss(output, targets)
        return functional.cross_entropy(output.flatten(0, -2), targets.flatten())

    def require_comparable(self) -> None:
        """`UsageError` unless float64 works, nothing is random, and outputs have the batch's rows."""
        modules = self.made_in(torch.float64), self.made_in(torch.float64)
        if made.bits(modules[0]) != made.bits(modules[1]):
            msg = "two builds from the same seed give different weights; all ranks must begin with the same"
            raise UsageError(msg)
        with Random() as random, loaded.seeded(1):
            output, loss, module = self._in_float64(modules[0])
        with loaded.seeded(2):
            again, other, repeated = self.run(torch.float64, module=modules[1])
        pairs = zip(gradients(module), gradients(repeated), strict=True)
        if not all(torch.equal(*pair) for pair in ((output, again), (loss, other), *pairs)):
            msg = (
                f"the module draws random numbers ({random.name or 'in some way'}), which no two backends "
                "draw alike: nothing can be compared. Draw them in batch, as a further input. Only the masks "
                "of dropout come from the host, and not those of dropout that torch.utils.checkpoint "
                "computes again"
            )
            raise UsageError(msg)
        if not output.dim() or len(output) != ROWS:
            msg = (
                f"the first tensor that the module returns for {ROWS} rows has the shape "
                f"{tuple(output.shape)}; needed: ({ROWS}, ...)"
            )
            raise UsageError(msg)

    def _in_float64(self, module: nn.Module) -> tuple[Tensor, Tensor, nn.Module]:
        """As `run`; what fails in float32 too, as a user runs it, is refused without naming a dtype."""
        try:
            return self.run(torch.float64, module=module)
        except UsageError as error:
            if refused := self.refusal(torch.float32):
                raise UsageError(refused.replace(" fails in float32: ", " fails: ", 1)) from error
            raise

    def refusal(self, dtype: torch.dtype) -> str:
        """Why the module does not run in `dtype`; empty if it does.

        One row shows that it runs in a half type, whose matrix products take most CPUs 50 times as long.
        """
        reason = ""
        for rows in (1, ROWS) if dtype in HALF else (ROWS,):
            try:
                self.run(dtype, slice(0, rows))
            except UsageError as error:
                reason = str(error)
            else:
                return ""
        return reason

    def noise(self) -> str:
        """The first module whose float32 output is far from the float64 one, in words; empty for none."""
        self.run(torch.float64)
        exact = dict(self.outputs)
        self.run(torch.float32)
        for name, output in self.outputs.items():
            if name not in exact or not output.numel():
                continue
            size = exact[name].square().mean().sqrt()
            error = (output - exact[name]).square().mean().sqrt()
            if not error <= NOISE * size:
                return f"{name} is off by {float(error / size):.0%} of its output in float32"
        return ""

    def reads(self) -> dict[str, int]:
        """How often a step reads values on the host, by operator; the user's optimizer is part of it.

        `UsageError` where the optimizer does not take the module's parameters.
        """
        module = self.made_in(torch.float32)
        with Reads() as of_model:
            self.run(torch.float32, module=module)
        trained = [*module.parameters()]
        with Reads((*trained, *gradients(module))) as of_optimizer, explained("optimizer(parameters)"):
            if hasattr(self.functions, "optimizer"):
                self.functions.optimizer(trained).step()
        return dict(sorted((of_model.counts + of_optimizer.counts).items()))

    def mixes(self) -> bool:
        """Whether the code mixes tensors that it makes with those that it is given."""
        modes = list[Mixes]()

        def mode(module: nn.Module, batch: TrialBatch) -> Mixes:
            modes.append(Mixes([*module.parameters(), *module.buffers(), *batch.tensors()]))
            return modes[0]

        self.run(torch.float32, mixes=mode)
        return modes[0].mixing

    def has_unused(self) -> bool:
        """Whether a parameter that requires a gradient gets none."""
        _, _, module = self.run(torch.float32)
        return any(one.requires_grad and one.grad is None for one in module.parameters())

    @contextmanager
    def _followed(self, module: nn.Module) -> Iterator[None]:
        """Keeps the names of the modules that are running, the innermost last."""
        self.running.clear()
        self.outputs.clear()
        hooks = []
        for name, inner in module.named_modules():
            shown = f"module {name} ({type(inner).__name__})" if name else f"module {type(inner).__name__}"
            hooks += [
                inner.register_forward_pre_hook(lambda *_, shown=shown: self.running.append(shown)),
                inner.register_forward_hook(lambda _m, _i, output: self._left(output)),
            ]
        yield
        for hook in hooks:
            hook.remove()

    def _left(self, output: object) -> None:
        """A module has ended, with this output."""
        name = self.running.pop()
        if isinstance(output, Tensor) and output.is_floating_point():
            # A copy: what follows may write into it, as an activation in place does
            self.outputs.setdefault(name, output.detach().to(torch.float64, copy=True))


def gradients(module: nn.Module) -> list[Tensor]:
    """The gradients of a module's parameters that have one."""
    return [one.grad for one in module.parameters() if one.grad is not None]


def takes_dict(module: nn.Module, inputs: Mapping[str, Tensor]) -> bool:
    """Whether inputs with names are the module's one argument: it has no arguments of these names."""
    signature = inspect.signature(module.forward)

    def binds(*arguments: object, **keywords: object) -> bool:
        try:
            signature.bind(*arguments, **keywords)
        except TypeError:
            return False
        return True

    named = not any(name.isdigit() for name in inputs)
    return named and not binds(**inputs) and binds(inputs)


def called(module: nn.Module, inputs: Mapping[str, Tensor]) -> Any:  # noqa: ANN401  the user's choice
    """What a module returns for inputs by name: numbers of arguments, or keywords."""
    positional = [tensor for name, tensor in inputs.items() if name.isdigit()]
    return module(*positional, **{name: one for name, one in inputs.items() if not name.isdigit()})


@contextmanager
def explained(doing: str, where: Any = None) -> Iterator[None]:  # noqa: ANN401  a function without arguments
    """Turns what the user's code raises into a `UsageError` of one line."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        here = Path.cwd().resolve()
        own = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(here)]
        line = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
        message = next(iter(str(error).strip().splitlines()), "")
        place = f"{where()} fails {doing}" if where else f"{doing} fails"
        msg = f"{place}: {type(error).__name__}: {message}{line}"
        raise UsageError(msg) from error
