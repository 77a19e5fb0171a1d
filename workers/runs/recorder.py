"""`difftest.record`: records a training in the user's own script, without changing a number of it."""

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from difftest.ground.errors import UsageError
from difftest.runs import layout
from difftest.runs.comparison import WrongTensor
from workers.runs.checking import StepState, check
from workers.runs.collecting import DIGEST, LOSS, Collected, counted, finite, hashes
from workers.runs.environment import averages, data_parallel, environment, stage_of, world
from workers.runs.hooks import TrainingHooks, Watches
from workers.runs.owned import buffers, owned
from workers.runs.perturbing import Noise
from workers.runs.placing import BatchPlace
from workers.runs.writing import Writer


def record(  # noqa: PLR0913  what a user may want to choose
    model: nn.Module | Sequence[nn.Module],
    optimizer: Any = None,  # noqa: ANN401  torch's, accelerate's, or several of them
    *,
    out: Path | str,
    every: int = 1,
    modules: str | Sequence[str] = "*",
    whole: str | Sequence[str] = (),
    data_ranks: tuple[int, int] | None = None,
    perturb: float = 0.0,
    seed: int = 0,
) -> "Recorder":
    """Records a training into the folder `out`, every rank into files of its own.

    Call it after the model is wrapped (DDP, FSDP, tensor parallel, `torch.compile`) or its stages are made,
    and before the first step; then call `Recorder.step` once after each step. In a pipeline `model` is the
    module of this rank's stage, or the list of those of several. `every` records each Nth step. `modules`
    and `whole` are patterns such as `layers.*.attn`: whose outputs are recorded, and which modules' and
    parameters' tensors are kept whole too. `data_ranks` is this rank's index among the ranks that cut the
    batch, and their number, where neither DDP nor FSDP says it. `perturb` adds noise of so many units in the
    last place, which changes the run: it shows what rounding may do. `seed` is that of the noise.

    `UsageError` for wrong arguments, and where the folder has a run already.
    """
    if every < 1:
        msg = f"every is {every}; the least is 1"
        raise UsageError(msg)
    if perturb < 0:
        msg = f"perturb is {perturb}; the least is 0"
        raise UsageError(msg)
    optimizers = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
    out = os.environ.get(layout.RECORDING) or out
    models = [model] if isinstance(model, nn.Module) else [*model]
    return Recorder(
        models,
        [_innermost(one) for one in optimizers if one is not None],
        Path(out),
        every=every,
        modules=_patterns(modules),
        whole=_patterns(whole),
        batch=BatchPlace(*data_ranks) if data_ranks else data_parallel(models),
        perturb=perturb,
        seed=seed,
    )


def _patterns(patterns: str | Sequence[str]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _innermost(optimizer: Any) -> Any:  # noqa: ANN401
    """The torch optimizer in wrappers such as accelerate's."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


class Recorder:
    """A recording that goes on. `with` closes it; `step` ends a step of the training."""

    def __init__(  # noqa: PLR0913  those of `record`
        self,
        models: Sequence[nn.Module],
        optimizers: Sequence[Any],
        folder: Path,
        *,
        every: int,
        modules: Sequence[str],
        whole: Sequence[str],
        batch: BatchPlace,
        perturb: float,
        seed: int,
    ) -> None:
        self.folder, self.rank, self.data_ranks = folder, world()[0], batch.ranks
        self._models, self._optimizers, self._every = models, optimizers, every
        self._step, self._calls, self._begun = 0, 0, False
        averaging = 1 / batch.ranks if averages(models) else 1.0
        self._collected = Collected(batch=batch, averaging=averaging, whole=whole)
        about = environment(models, optimizers, batch, perturbed=perturb, every=every)
        self._writer = Writer(folder, about)
        self._watch = Watches(
            TrainingHooks(
                model,
                self._collected,
                modules,
                self._begin,
                last=(stage := stage_of(model)) is None or stage.is_last,
            )
            for model in models
        )
        self._noise = (
            Noise(perturb, seed, lambda: (self._step, max(0, self._watch.microbatch), 0)) if perturb else None
        )
        self._handles = (
            [handle for model in models for handle in self._noise.hook(model)] if self._noise else []
        )
        for optimizer in optimizers:
            self._handles += [
                optimizer.register_step_pre_hook(self._before_update),
                optimizer.register_step_post_hook(self._after_update),
            ]
        self._watch.reset(active=True)

    def step(self, loss: Tensor | float | None = None) -> None:
        """Ends a step. `loss` is this rank's; without it, a loss that the model returns is recorded."""
        if self._watch.active:
            if loss is not None:
                value = loss if isinstance(loss, Tensor) else torch.tensor(float(loss))
                self._collected.add_numbers(LOSS, "given", value, counted)
            if not self._optimizers:
                self._parameters(layout.GRADIENT)
                self._parameters(layout.UPDATED)
            for name, buffer in buffers(self._models):
                self._collected.add(layout.BUFFER, name, buffer)
            self._write()
        self._step += 1
        self._calls = 0
        self._watch.reset(active=self._step % self._every == 0)

    def close(self) -> None:
        """Ends the recording, and takes its hooks off the model."""
        self._watch.remove()
        for handle in self._handles:
            handle.remove()
        self._writer.close()

    def check_step(self, step: Callable[[], object]) -> tuple[WrongTensor, ...]:
        """Runs `step` twice from the same state and compares every tensor bit for bit: silent corruption.

        `step` does what a step of the script does, on one batch: forward, backward and the optimizer's step,
        and does not call the recorder. All ranks call this. Returns the tensors that differ on any rank, in
        the order of computation; none if the step is repeatable. The training goes on after one step, which
        `Recorder.step` then ends as usual.
        """
        self._begin()
        before, self._collected.kept = self._collected.kept, []
        where, state = (self._step, self.rank), StepState(self._models, self._optimizers)

        def once() -> None:
            self._calls = 0
            step()

        places = check(state, self._collected, self._watch, once, where)
        self._collected.kept = [*before, *self._collected.kept]
        return places

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        """What the first forward pass begins with: the parameters as they are."""
        if self._begun:
            return
        self._begun = True
        if self._noise:
            self._noise.on_parameters("parameter", self._named())
        self._parameters(layout.START)

    def _before_update(
        self, _optimizer: object, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Records the gradients: now, or when a closure of the script has computed them the first time."""
        self._begin()
        closure = keywords.get("closure") or (arguments[1] if len(arguments) > 1 else None)
        if not callable(closure):
            self._gradients()
            return None
        calls = itertools.count()

        def recorded() -> Any:  # noqa: ANN401  the loss, as the script gives it
            loss = closure()
            if not next(calls):
                self._gradients()
            return loss

        if "closure" in keywords:
            return arguments, {**keywords, "closure": recorded}
        return (arguments[0], recorded, *arguments[2:]), keywords

    def _gradients(self) -> None:
        if self._noise:
            gradients = [(name, p.grad) for name, p in self._named() if p.grad is not None]
            self._noise.on_parameters("gradient", gradients)
        if self._watch.active:
            self._parameters(layout.GRADIENT)

    def _after_update(self, *_: object) -> None:
        if self._noise:  # every update rounds, so that runs part from step to step
            self._noise.on_parameters("updated", self._named())
        if self._watch.active:
            self._parameters(layout.UPDATED)
        self._calls += 1

    def _parameters(self, kind: str) -> None:
        """Adds every parameter, or its gradient. A script may update several times a step."""
        place = f"#{self._calls}" if self._calls else ""
        for one in owned(self._models):
            tensor = one.gradient if kind == layout.GRADIENT else one.value
            if tensor is not None:
                self._collected.add(kind, one.name, tensor, place=place, flat=one.range)

    def _named(self) -> list[tuple[str, nn.Parameter]]:
        return [pair for model in self._models for pair in model.named_parameters()]

    def _write(self) -> None:
        rows, losses, digests = [], {}, {}
        for about, row in self._collected.take():
            if about.kind == LOSS:
                losses[about.owner] = float(row[0] / row[1])
            elif about.kind == DIGEST:
                digests[about.owner] = hashes(row)
            else:
                rows.append((about, row))
        loss = losses.get("given", losses.get(""))
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        step = layout.Step(
            step=self._step,
            row=0,
            tensors=(),
            loss=None if loss is None else finite(loss),
            rates=tuple(dict.fromkeys(float(group["lr"]) for group in groups if "lr" in group)),
            microbatches=self._watch.microbatch + 1,
            samples=self._watch.samples,
            digests=digests,
        )
        self._writer.write(step, rows)
        self._writer.write_arrays(self._step, self._collected.take_arrays())
