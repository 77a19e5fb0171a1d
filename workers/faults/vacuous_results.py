"""Planted faults after which a green result would prove nothing.

Nothing was compared, or the host did the work, or the results are of another run. `difftest selftest --green`
runs a campaign with each of them, none of which may end in status 0.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from msgspec import structs
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.case import Case
from difftest.cases.layout import Placements, local_slices
from difftest.ground.errors import UnsupportedError
from difftest.judge.outcome import Array, Origin, Outcome, Sharded, Trace
from difftest.judge.stage import Stage
from workers.deadlines import MOST_SECONDS
from workers.faults import EVERY_SIDE, Run, vacuous, vacuous_work
from workers.training.pieces import sharded, values
from workers.training.session import Session

ORACLE, TORCH, XLA = "oracle", "torch", "xla"
ACTIVATIONS = ("relu", "gelu", "silu", "tanh")


def _after_backward(session: Session, act: Callable[[nn.Module], object]) -> Session:
    """The session in which `act` follows every backward."""

    def after(stage: Stage, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        session.after(stage, step, module, optimizer)
        if stage is Stage.BACKWARD:
            act(module)

    return replace(session, after=after)


@vacuous(about="every rank of a side is killed", sides=(XLA,))
def side_killed(session: Session, _case: Case, _rank: int) -> Session:
    """By SIGKILL, as the kernel kills for lack of memory."""
    return _after_backward(session, lambda _module: os.kill(os.getpid(), signal.SIGKILL))


@vacuous(about="a side is too slow for its deadline", sides=(XLA,))
def side_too_slow(session: Session, _case: Case, _rank: int) -> Session:
    """Waits past every deadline."""
    return _after_backward(session, lambda _module: time.sleep(2 * MOST_SECONDS))


@vacuous(about="the oracle fails in every case", sides=(ORACLE,))
def oracle_down(session: Session, _case: Case, _rank: int) -> Session:
    """Raises in Python."""

    def fail(_module: nn.Module) -> None:
        msg = "planted failure"
        raise RuntimeError(msg)

    return _after_backward(session, fail)


@vacuous(about="the oracle computes wrong gradients", sides=(ORACLE,))
def oracle_wrong(session: Session, _case: Case, _rank: int) -> Session:
    """Both sides then differ from it alike, and agree with each other."""

    def negate(module: nn.Module) -> None:
        for parameter in module.parameters():
            parameter.grad = None if parameter.grad is None else -parameter.grad

    return _after_backward(session, negate)


@vacuous(about="linear layers and activations run on the host", sides=(XLA,))
def host_execution(session: Session, _case: Case, _rank: int) -> Session:
    """Each takes its tensors from the device and sends its result back: the numbers are right."""
    for name in ("linear", *ACTIVATIONS):
        setattr(functional, name, _on_host(getattr(functional, name)))
    for name in ACTIVATIONS[::3]:
        setattr(torch, name, _on_host(getattr(torch, name)))
    return session


def _on_host(operator: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The operator, computed on the host."""

    def run(first: Tensor, *rest: Any, **named: Any) -> Tensor:  # noqa: ANN401  an operator's own
        # Times 1, so that neither the result nor a gradient is what was copied: SPMD cannot read such.
        hosts = ((given * 1.0).cpu() if isinstance(given, Tensor) else given for given in (first, *rest))
        return operator(*hosts, **named).to(first.device) * 1.0

    return run


@vacuous(about="layer norms run on the host", sides=(XLA,))
def norms_on_host(session: Session, _case: Case, _rank: int) -> Session:
    """As `host_execution`, for one operator that few cases have."""
    functional.layer_norm = _on_host(functional.layer_norm)
    return session


@vacuous(about="the optimizer runs on the host", sides=(XLA,))
def optimizer_on_host(session: Session, _case: Case, _rank: int) -> Session:
    """Adam updates copies of the parameters, which are sent back: the numbers are right."""
    right, copies = torch.optim.Adam.step, dict[int, torch.optim.Adam]()

    def step(optimizer: torch.optim.Adam, _closure: object = None) -> None:
        device = [one for group in optimizer.param_groups for one in group["params"]]
        if id(optimizer) not in copies:
            hosts = [nn.Parameter((parameter.detach() * 1.0).cpu()) for parameter in device]
            copies[id(optimizer)] = torch.optim.Adam(hosts, lr=optimizer.param_groups[0]["lr"])
        on_host = copies[id(optimizer)]
        for host, one in zip(on_host.param_groups[0]["params"], device, strict=True):
            host.grad = None if one.grad is None else (one.grad.detach() * 1.0).cpu()
        right(on_host)
        with torch.no_grad():
            for host, one in zip(on_host.param_groups[0]["params"], device, strict=True):
                one.copy_(host.detach().to(one.device))

    torch.optim.Adam.step = step  # type: ignore[method-assign, assignment]
    return session


@vacuous(about="the learning rate is 0 everywhere", sides=(EVERY_SIDE,))
def nothing_learned(session: Session, _case: Case, _rank: int) -> Session:
    """No update moves a parameter, on the oracle neither."""

    def after(stage: Stage, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        session.after(stage, step, module, optimizer)
        if stage is Stage.BACKWARD:
            for group in optimizer.param_groups:
                group["lr"] = 0.0

    return replace(session, after=after)


@vacuous(about="an operator falls back to the host", sides=(XLA,))
def operator_falls_back(session: Session, _case: Case, _rank: int) -> Session:
    """`nonzero`, which torch_xla computes on the CPU unless it is told otherwise."""
    return replace(
        session, total=lambda loss: session.total(loss) + 0.0 * torch.nonzero(loss.reshape(1)).sum()
    )


@vacuous(about="the whole run is on the host", sides=(XLA,))
def wrong_device(session: Session, case: Case, _rank: int) -> Session:
    """Nothing is placed on the device, and the pieces that ranks should hold are cut on the host."""

    def read(tensor: Tensor, placements: Placements) -> Sharded:
        whole, mesh = values(tensor.detach()).copy(), case.layout.mesh
        cuts = (local_slices(tuple(tensor.shape), placements, mesh, rank) for rank in range(mesh.world_size))
        return sharded(tensor, placements, {rank: whole[cut] for rank, cut in enumerate(cuts)})

    return replace(
        session,
        place=lambda module: module,
        feed=lambda tensor: tensor,
        read=read,
        sync=lambda: None,
        accumulate=None,
    )


def _reading(session: Session, change: Callable[[Array], Array], shape: tuple[int, ...] | None) -> Session:
    """The session whose tensors are changed as they are read; `shape` is their global shape if not None.

    A lazy tensor's pieces come later, so they are changed when the run ends.
    """

    def replay(train: Callable[[Session], Trace], joined: Session) -> Trace:
        return _changed(session.replay(train, joined), change, shape)

    return replace(session, replay=replay)


def _changed(trace: Trace, change: Callable[[Array], Array], shape: tuple[int, ...] | None) -> Trace:
    steps = tuple(
        {
            key: replace(
                tensor,
                shape=tensor.shape if shape is None else shape,
                pieces={rank: change(piece) for rank, piece in tensor.pieces.items()},
            )
            for key, tensor in step.items()
        }
        for step in trace.steps
    )
    return replace(trace, steps=steps)


@vacuous(about="a side returns empty tensors", sides=(XLA,))
def empty_tensors(session: Session, _case: Case, _rank: int) -> Session:
    """Of shape (0,)."""
    return _reading(session, lambda piece: piece.reshape(-1)[:0], (0,))


@vacuous(about="every side and the oracle return zeros", sides=(EVERY_SIDE,))
def constant_results(session: Session, _case: Case, _rank: int) -> Session:
    """All agree."""
    return _reading(session, np.zeros_like, None)


@vacuous_work(about="the workers support no case", sides=(TORCH, XLA))
def nothing_supported(_run: Run, _case: Case, _backend: str) -> Outcome:
    """As where their packages are too old."""
    msg = "planted: this worker supports nothing"
    raise UnsupportedError(msg)


@vacuous_work(about="a worker has another version of torch", sides=(XLA,))
def other_version(run: Run, case: Case, backend: str) -> Outcome:
    """An older one."""
    outcome = run(case, backend)
    return replace(outcome, environment={**outcome.environment, "torch": "2.0.1"})


@vacuous_work(about="a worker returns the results of another case", sides=(XLA,))
def other_case(run: Run, case: Case, backend: str) -> Outcome:
    """With another seed."""
    return run(structs.replace(case, seed=case.seed + 1), backend)


@vacuous_work(about="a worker returns the oracle's results for a side's", sides=(TORCH, XLA))
def other_backend(run: Run, case: Case, _backend: str) -> Outcome:
    """The oracle agrees with itself."""
    return run(case, ORACLE)


@vacuous_work(about="a worker returns the results of an earlier run", sides=(TORCH, XLA))
def stale_results(run: Run, case: Case, backend: str) -> Outcome:
    """Of the same case, so that running it twice would show no difference.

    Another worker may get the second request, so the earlier run is made here, for a request of its own.
    """
    earlier = run(case, backend)
    origin = Origin(case=case.id, backend=backend, number="of an earlier request")
    return replace(earlier, origin=origin)


@vacuous_work(about="a side returns the first step only", sides=(XLA,))
def steps_missing(run: Run, case: Case, backend: str) -> Outcome:
    """A run of one step has no later one to be wrong in."""
    outcome = run(case, backend)
    return replace(outcome, steps=outcome.steps[:1]) if isinstance(outcome, Trace) else outcome


@vacuous_work(about="a side returns the tensors of its first rank only", sides=(TORCH,))
def ranks_missing(run: Run, case: Case, backend: str) -> Outcome:
    """The other ranks might hold anything."""
    outcome = run(case, backend)
    if not isinstance(outcome, Trace):
        return outcome
    steps = tuple(
        {key: replace(tensor, pieces={0: tensor.pieces[0]}) for key, tensor in step.items()}
        for step in outcome.steps
    )
    return replace(outcome, steps=steps)


@vacuous_work(about="a side returns no tensor at all", sides=(XLA,))
def no_tensors(run: Run, case: Case, backend: str) -> Outcome:
    """As many steps as the case has, all of them empty."""
    outcome = run(case, backend)
    return replace(outcome, steps=tuple({} for _ in outcome.steps)) if isinstance(outcome, Trace) else outcome
