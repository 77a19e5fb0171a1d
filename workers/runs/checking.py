"""Silent corruption: a step that is run twice from one state must give the same bits, tensor by tensor.

Where it does not, it is run a third time. Two equal runs of three mean that the other was corrupted; three
different ones mean that the step is not deterministic, which then hides corruption.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from difftest.runs import layout
from difftest.runs.comparison import WrongTensor
from difftest.runs.layout import BUCKETS, SQUARES, Floats
from workers.runs.collecting import DIGEST, LOSS, Collected, KeptTensor
from workers.runs.hooks import Watches

RUNS = ("the first of three runs", "the second of three runs", "every run: the step is not deterministic")

Rows = list[tuple[layout.Tensor, Floats]]


class StepState:
    """What a step changes: parameters, buffers, gradients, the optimizers and the random numbers."""

    def __init__(self, models: Sequence[nn.Module], optimizers: Sequence[Any]) -> None:
        parameters = [one for model in models for one in model.parameters()]
        kept = (*parameters, *(one for model in models for one in model.buffers()))
        self._tensors = [(one, one.detach().clone()) for one in kept]
        self._gradients = [(one, _copied(one.grad)) for one in parameters]
        self._optimizers = [
            (one, {key: _copied(value) for key, value in one.state.items()}, _groups(one))
            for one in optimizers
        ]
        self._random = torch.get_rng_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore(self) -> None:
        """Brings it all back."""
        with torch.no_grad():
            for tensor, kept in self._tensors:
                tensor.copy_(kept)
        for parameter, gradient in self._gradients:
            parameter.grad = _copied(gradient)
        for optimizer, state, groups in self._optimizers:
            optimizer.state.clear()
            optimizer.state.update({key: _copied(value) for key, value in state.items()})
            for group, kept_group in zip(optimizer.param_groups, groups, strict=True):
                group.update(_copied(kept_group))
        torch.set_rng_state(self._random)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)


def _groups(optimizer: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [
        {name: _copied(value) for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]


def _copied(value: Any) -> Any:  # noqa: ANN401  an optimizer's state is of any type
    if isinstance(value, Tensor):
        return value.detach().clone()
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def check(
    before: StepState,
    collected: Collected,
    watch: Watches,
    step: Callable[[], object],
    where: tuple[int, int],
) -> tuple[WrongTensor, ...]:
    """The tensors that differ between repetitions of a step, of all ranks, in the order of their computation.

    `before` is the state from which each begins, `where` are the number of the step and this rank. The rows
    of the last run stay collected.
    """
    was = watch.active
    runs: list[Rows] = []
    # Where any rank has a difference, all of them run the step a third time.
    while len(runs) < 2 or (len(runs) == 2 and any(_of_all([bool(_differing(*runs))]))):  # noqa: PLR2004
        if runs:
            before.restore()
        collected.kept.clear()
        watch.reset(active=True)
        step()
        runs.append(collected.take())
    watch.active = was
    collected.kept = [KeptTensor(about=about, row=torch.from_numpy(row.copy())) for about, row in runs[-1]]
    places = [(index, _place(runs, index, where)) for index in _differing(runs[0], runs[1])]
    return tuple(place for _, place in sorted(_of_all(places), key=lambda pair: (pair[0], pair[1].ranks)))


def _differing(one: Rows, two: Rows) -> list[int]:
    """The indices of tensors of other bits. A tensor that only one run has counts."""
    if [about.key for about, _ in one] != [about.key for about, _ in two]:
        return list(range(min(len(one), len(two))))[:1]
    return [
        index
        for index, ((about, first), (_, second)) in enumerate(zip(one, two, strict=True))
        if about.kind not in (LOSS, DIGEST) and first.tobytes() != second.tobytes()
    ]


def _place(runs: Sequence[Rows], index: int, where: tuple[int, int]) -> WrongTensor:
    rows = [run[index][1] for run in runs]
    about = runs[0][index][0]
    odd = 2
    if len(rows) > 2:  # noqa: PLR2004
        same = [rows[2].tobytes() == row.tobytes() for row in rows[:2]]
        odd = 1 if same[0] else 0 if same[1] else 2
    return WrongTensor(
        step=where[0],
        kind=about.kind,
        owner=about.owner,
        place=about.place,
        difference=float(np.linalg.norm(rows[0][:BUCKETS] - rows[1][:BUCKETS])),
        norm=float(np.sqrt(rows[0][SQUARES])),
        ranks=(where[1],),
        share=f"rank {where[1]}, in {RUNS[odd]}",
    )


def _of_all(own: list[Any]) -> list[Any]:
    """The lists of all ranks, one after another."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return own
    lists: list[list[Any]] = [[] for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(lists, own)
    return [one for each in lists for one in each]
