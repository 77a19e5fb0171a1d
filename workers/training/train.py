"""The training loop, written once for all backends.

A backend only joins, places, feeds and reads, so a difference between two backends can only come from them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from msgspec import structs
from torch import Tensor, nn

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layers.own import result_name
from difftest.cases.layout import replicated
from difftest.cases.numbers import Batch
from difftest.cases.options import Spelling
from difftest.ground.errors import UnsupportedError
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from workers.own import made
from workers.own.masks import Masks
from workers.own.precision import wide
from workers.own.results import further_results, joined_results
from workers.training import module_traces, program, spelling
from workers.training.build import build
from workers.training.dtypes import Dtypes
from workers.training.elsewhere import operators_elsewhere
from workers.training.features import Features, State, TrainingProgress, forwards_first, state_of
from workers.training.features import made as made_features
from workers.training.layers import Plan
from workers.training.loss import loss_of
from workers.training.module_traces import ModuleWatch
from workers.training.optimizers import make_optimizer
from workers.training.pieces import batches_of_ranks
from workers.training.session import Outputs, Session, StageReport
from workers.training.wrapped_names import bare, parameters, state


def train(case: Case, session: Session, report: StageReport) -> Trace:
    """Trains `case` in a joined session and returns the trace: the pieces that this process held."""
    report(Stage.BUILD, 0)
    forms = case.forms if session.spelled else Spelling()
    features = made_features(case.training_features, plain=not session.spelled, own=session.does)
    features.require(session.reads_values)
    plan = Plan(
        sequence=case.model.sequence,
        operators=features.operators(spelling.operators(session.operators, forms)),
        dtypes=Dtypes(session.dtype, session.wide),
        checkpointing=case.training.checkpointing,
        spelling=forms,
        dispatch=case.dispatched_by,
        adjusted=case.staged is not None,
        seed=case.seed,
        rounded=getattr(torch, case.dtype),
    )
    module = build(case.model, numbers.weights(case), plan)
    report(Stage.PLACE, 0)
    module = features.place(module)
    early = make_optimizer(case, module, features) if forms.optimizer_before else None
    module = session.place(module)
    if case.model.is_program:
        return program.run(case, session, module, report)
    optimizer = early or make_optimizer(case, module, features)
    masks = Masks(case.seed, case.part_rows, case.dtype, session.feed)
    first_state = state_of(optimizer.state)
    run = _Run(
        case, session, module, optimizer, first_state, report, ModuleWatch(module), forms, masks, features
    )
    count = case.training.steps if session.steps is None else session.steps
    steps = tuple(run.step(step) for step in range(count))
    environment = {**session.environment, "numbers": _numbers(case).digest(case)}
    reported = structs.replace(
        features.reported(session.events()),
        device=session.device,
        elsewhere=dict(run.elsewhere),
        state=state(module) if case.model.statistics() else {},
    )
    return Trace(steps=steps, environment=environment, events=reported)


@dataclass(frozen=True, slots=True)
class _Run:
    """A placed module in training."""

    case: Case
    session: Session
    module: nn.Module
    optimizer: torch.optim.Optimizer
    first_state: State
    report: StageReport
    watch: ModuleWatch
    forms: Spelling
    masks: Masks
    features: Features
    elsewhere: Counter[str] = field(default_factory=Counter)
    before_evaluation: dict[str, Tensor] = field(default_factory=dict)
    """The buffers as they were before a feature ran the module beside the steps."""

    def step(self, step: int) -> dict[tuple[Stage, str], Sharded]:
        """One update from all parts of the step's batch: its outputs, loss, gradients and parameters."""
        with self.session.around():
            return self._step(step)

    def _step(self, step: int) -> dict[tuple[Stage, str], Sharded]:
        progress = TrainingProgress(
            module=self.module,
            optimizer=self.optimizer,
            optimizer_of=partial(make_optimizer, self.case, features=self.features),
            first_state=self.first_state,
            step=step,
            steps=self.case.training.steps,
            forward=partial(self._evaluate, step),
            of_rank=partial(self._evaluate, step),
            keep_buffers=self._keep_buffers,
            ranks=self.case.layout.data_ranks,
            scale=self.session.scale,
        )
        self._run_features("before", progress)
        results = self._forward_backward(progress)
        self._run_features("backward", progress)
        self.session.after(Stage.BACKWARD, step, self.module, self.optimizer)
        parameters = self._parameters()  # later passes may gather whole ones
        gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        results |= self._read(Stage.BACKWARD, gradients)
        self.report(Stage.UPDATE, step)
        if self.case.training.clip_norm is not None:
            self.session.clip(self.module.parameters(), self.case.training.clip_norm)
        self._run_features("update", progress)
        self._run_features("inside", progress)
        with self._wide() if self.case.training.optimizer == "own" else nullcontext():
            self.optimizer.step()
        if not self.features.zeroes:
            self.optimizer.zero_grad(**self.features.zero)
        self._run_features("after", progress)
        self.session.sync()
        self.session.after(Stage.UPDATE, step, self.module, self.optimizer)
        updated: dict[str, Tensor] = {name: p.detach() for name, p in parameters.items()}
        return results | self._read(Stage.UPDATE, updated | self._buffers())

    def _run_features(self, hook: str, progress: TrainingProgress) -> None:
        """Calls one hook of the features, after which the buffers are as the steps have left them.

        What a feature equals has another number of forward passes, and running statistics count them.
        """
        self.features.run(hook, progress)
        if self.before_evaluation:
            _fill(self.module, self.before_evaluation)
            self.before_evaluation.clear()

    def _keep_buffers(self) -> None:
        """Has the buffers be as they are now after the features' hook that is running."""
        if self.module.training and not self.before_evaluation:
            kept = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
            self.before_evaluation.update(kept)

    def _evaluate(self, step: int, rank: int | None = None) -> Tensor:
        """The loss of the step's first part, or of a rank's rows, neither read nor differentiated here.

        Dropout drops the elements that it drops in the first part, and the steps' own are not moved.
        """
        self._keep_buffers()
        part = split(_numbers(self.case).batch(self.case, step), self.case.training.accumulation)[0]
        rows = None if rank is None else batches_of_ranks(self.case)[rank]
        part = part.rows(rows) if rows else part
        apart = replace(self, masks=self.masks.begun_again())
        _, loss = apart._forward(step, part, *map(self.session.feed, self._hosts(part)), rows=rows)  # noqa: SLF001
        return loss

    def _buffers(self) -> dict[str, Tensor]:
        """The buffers that the case knows of, by its names."""
        there = {bare(name): buffer for name, buffer in self.module.named_buffers()}
        apart = self.case.model.own.of_all_rows() if self.case.model.own and self.session.apart else ()
        return {
            name: there[name] for name in self.case.model.statistics() if name in there and name not in apart
        }

    def _parameters(self) -> dict[str, nn.Parameter]:
        """The case's parameters: where placement has broken a tie, the module has more."""
        there = parameters(self.module)
        return {name: there[name] for name in there if name in self.case.layout.parameters}

    def _forward_backward(self, progress: TrainingProgress) -> dict[tuple[Stage, str], Sharded]:
        step = progress.step
        parts = split(_numbers(self.case).batch(self.case, step), self.case.training.accumulation)
        if self.session.accumulate or self.session.staged:
            self._require_one_by_one()
            self.report(Stage.FORWARD, step)
            outputs, total = self._at_once(step, parts)
            results = {
                key: tensor
                for index, tensors in enumerate(outputs)
                for key, tensor in self._read_outputs(tensors, index).items()
            }
            self.session.sync()
        elif self._joins_batches():
            results, total = self._rank_by_rank(step, parts[0])
        elif self.features.forwards_first:
            results, total = self._forwards_first(step, parts)
        else:
            results, total = self._loop(progress, parts)
        everywhere = replicated(self.case.layout.mesh)
        results[Stage.FORWARD, "loss"] = self.session.read(total.detach(), everywhere)
        return results

    def _require_one_by_one(self) -> None:
        """`UnsupportedError` where a backward pass is to wait or to be differentiated, and is no function."""
        if does := self.features.one_by_one():
            msg = f"forward and backward of the parts are one function here; no backward pass can {does}"
            raise UnsupportedError(msg)

    def _joins_batches(self) -> bool:
        """Whether this process computes alone what ranks compute of batches of their own."""
        own = self.case.model.own
        return own is not None and own.by_rank and self.case.layout.data_ranks > 1 and not self.session.apart

    def _rank_by_rank(self, step: int, batch: Batch) -> tuple[dict[tuple[Stage, str], Sharded], Tensor]:
        """Forward and backward of every rank's rows by themselves: their tensors joined, and the total loss.

        All begin with the same buffers, and those of the first rank stay.
        """
        self.report(Stage.FORWARD, step)
        ranks = batches_of_ranks(self.case)
        buffers = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        outputs_of, losses, left = list[Outputs](), list[Tensor](), dict[str, Tensor]()
        traced = list[module_traces.Tensors]()
        for rows in ranks:
            _fill(self.module, buffers)
            part = batch.rows(rows)
            outputs, loss = self._forward(step, part, *map(self.session.feed, self._hosts(part)), rows=rows)
            with self._wide():
                loss.backward()
            outputs_of.append({place: output.detach() for place, output in outputs.items()})
            losses.append(loss.detach())
            traced.append(self.watch.take())
            left = left or {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        _fill(self.module, left)
        shares = [(rows.stop - rows.start) / self.case.part_rows for rows in ranks]
        assert self.case.model.own  # noqa: S101  no other model has such batches
        joined = joined_results(self.case.model.own, outputs_of, shares)
        results = self._read_outputs(joined, 0) | self._read_modules(module_traces.joined(traced), 0, 1.0)
        return results, torch.stack(losses).sum()

    def _at_once(self, step: int, parts: Sequence[Batch]) -> tuple[list[Outputs], Tensor]:
        """Forward and backward of all parts by the backend's own means: the outputs and the total loss."""
        hosts = [self._hosts(part) for part in parts]
        if self.session.accumulate:
            return self.session.accumulate(self.module, hosts, partial(self._forward, step, parts[0]))
        assert self.session.staged  # noqa: S101  it has one of both

        def loss(output: Tensor, targets: Tensor) -> Tensor:
            return self._part_loss(step, output, output, targets, parts[0].count)

        outputs, total = self.session.staged(self.module, hosts, loss)
        return [{"": output} for output in outputs], total

    def _loop(
        self, progress: TrainingProgress, parts: Sequence[Batch]
    ) -> tuple[dict[tuple[Stage, str], Sharded], Tensor]:
        """Forward and backward of one part after another: the tensors read, and the total loss."""
        step = progress.step
        results, losses = dict[tuple[Stage, str], Sharded](), []
        for index, part in enumerate(parts):
            self.report(Stage.FORWARD, step)
            with self.session.quiet(self.module, index == len(parts) - 1):
                outputs, loss = self._forward(step, part, *map(self.session.feed, self._hosts(part)))
                results |= self._read_outputs(outputs, index)
                losses.append(self.session.total(loss.detach()))
                if index == 0:
                    self._run_features("forwarded", progress)
                self.report(Stage.BACKWARD, step)
                with self.session.observe("backward", self.module), self._wide():
                    (loss * self.session.scale).backward()
            results |= self._read_modules(self.watch.take(), index, self.session.scale)
            self.session.sync()
        return results, torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    def _read_modules(
        self, kept: module_traces.Tensors, part: int, scale: float
    ) -> dict[tuple[Stage, str], Sharded]:
        """The traced tensors of an accumulation part."""
        batch = self.case.layout.batch
        return module_traces.read(kept, lambda tensor: self.session.read(tensor, batch), part, scale)

    def _forwards_first(
        self, step: int, parts: Sequence[Batch]
    ) -> tuple[dict[tuple[Stage, str], Sharded], Tensor]:
        """The forward passes of all parts, and then the backward passes; what modules made is not traced."""
        results, losses = dict[tuple[Stage, str], Sharded](), list[Tensor]()
        with self.session.quiet(self.module, True):  # noqa: FBT003  as the last part
            for index, part in enumerate(parts):
                self.report(Stage.FORWARD, step)
                outputs, loss = self._forward(step, part, *map(self.session.feed, self._hosts(part)))
                results |= self._read_outputs(outputs, index)
                losses.append(loss)
            for loss in forwards_first.differentiated(losses, self.features.forwards_first):
                self.report(Stage.BACKWARD, step)
                with self.session.observe("backward", self.module), self._wide():
                    (loss * self.session.scale).backward()
        for _ in parts:  # as often as where each part is for itself
            self.session.sync()
        return results, torch.stack([self.session.total(loss.detach()) for loss in losses]).sum()

    def _forward(
        self,
        step: int,
        part: Batch,
        inputs: Tensor,
        targets: Tensor,
        *extras: Tensor,
        rows: slice | None = None,
    ) -> tuple[Outputs, Tensor]:
        """Outputs and loss; `part` has the batch's number of targets and the names of the extras.

        `rows` are those of a part that is a batch of its own.
        """
        call = self.features.call if torch.is_grad_enabled() else None
        named = dict(zip(part.extras, extras, strict=True))
        with self.session.observe("forward", self.module), self._replacements(step, rows):
            outputs, term = (
                call(lambda given: self.module(given, named), inputs, part.count)
                if call
                else (self.module(inputs, named), None)
            )
            output = made.first_floats(outputs)
            loss = self._part_loss(step, outputs, output, targets, part.count)
            loss = loss if term is None else loss + term
        self.elsewhere.update(operators_elsewhere(loss, self.session.device))
        own, share = self.case.model.own, targets.shape[0] / len(part.inputs)
        further = further_results(own, outputs, share, apart=self.session.apart) if own else {}
        return {"": output, **further}, loss

    def _read_outputs(self, outputs: Outputs, part: int) -> dict[tuple[Stage, str], Sharded]:
        """The tensors that the module returned for an accumulation part."""
        own, layout = self.case.model.own, self.case.layout
        read = {}
        for place, tensor in outputs.items():
            over = own.results[place] if own and place else 0
            output = tensor.detach()
            if isinstance(over, int):
                pieces = self.session.read(self.session.whole(output), layout.batch)
            else:
                output = self.session.total(output) if over == "mean" else output
                pieces = self.session.read(output, replicated(layout.mesh))
            read[Stage.FORWARD, result_name(place, part)] = pieces
        return read

    def _part_loss(self, step: int, outputs: Any, output: Tensor, targets: Tensor, count: int) -> Tensor:  # noqa: ANN401
        """As `_loss`, in the form of the case's spelling."""
        loss = self._loss(outputs, output, targets, count)
        return spelling.with_changing_number(loss, step) if self.forms.changing_number else loss

    @contextmanager
    def _replacements(self, step: int, rows: slice | None) -> Iterator[None]:
        """What the code of a module of the user's gets: masks of the host, and float64 in the oracle."""
        with ExitStack() as stack:
            if self.case.model.own:
                stack.enter_context(self.masks.of_step(step, rows))
                stack.enter_context(self._wide())
            yield

    def _wide(self) -> AbstractContextManager[object]:
        """In the oracle, a context in which the user's code computes in float64 whatever it names."""
        return wide() if self.case.model.own and self.session.wide else nullcontext()

    def _loss(self, outputs: Any, output: Tensor, targets: Tensor, count: int) -> Tensor:  # noqa: ANN401
        """The loss of what the module returns, of which `output` is compared."""
        if self.case.training.loss == "own":
            return made.loss(self.case, outputs, targets, count)
        usual = spelling.loss_of if self.forms.torch_loss else loss_of
        return (self.session.loss or usual)(self.case, output, targets, count)

    def _hosts(self, part: Batch) -> list[Tensor]:
        """Inputs, targets and extras on the host, floating-point ones in the session's dtype."""
        tensors = map(torch.from_numpy, (part.inputs, part.targets, *part.extras.values()))
        return [tensor.to(self.session.dtype) if tensor.is_floating_point() else tensor for tensor in tensors]

    def _read(self, stage: Stage, tensors: Mapping[str, Tensor]) -> dict[tuple[Stage, str], Sharded]:
        placements = self.case.layout.parameters
        return self.session.shared(
            {(stage, name): self.session.read(tensor, placements[name]) for name, tensor in tensors.items()}
        )


def _numbers(case: Case) -> Any:  # noqa: ANN401  a module with `batch(case, step)` and `digest(case)`
    """Where a case's numbers come from: its seed, or the functions of the user."""
    return made if case.model.own else numbers


def _fill(module: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    """Gives a module's buffers these values."""
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])


def split(batch: Batch, parts: int) -> list[Batch]:
    """The accumulation parts of a batch: consecutive rows, as many in each part."""
    rows = len(batch.inputs) // parts
    return [batch.rows(slice(i * rows, (i + 1) * rows)) for i in range(parts)]
