"""Expert parallelism by torch's collectives: rows travel to the ranks that have their experts, and back.

Experts are DTensors over `ep`, and over `tp` if there is one. All else is each rank's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed.nn.functional as differentiable
from torch import Tensor, distributed
from torch.distributed import _functional_collectives as functional_collectives
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate
from torch.nn import functional

from difftest.cases.layout import chunk
from difftest.cases.routed import EXPERTS, TENSOR
from workers.training.expert_rows import Routed, activated

SUMMED: Placement = Partial()
"""What the gradient of a row is on a rank of `tp`: a term of a sum."""

KERNEL_BYTES = 16
"""`torch._grouped_mm` takes matrices whose rows have a multiple of so many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertRank:
    """One rank's experts. `data_axes` are the mesh axes that cut the rows, outermost first."""

    mesh: DeviceMesh
    data_axes: tuple[str, ...]

    @property
    def group(self) -> distributed.ProcessGroup:
        """The ranks that share the experts."""
        return self.mesh.get_group(EXPERTS)

    def route(self, routed: Routed) -> Tensor:
        """The results of this rank's rows."""
        wanted = routed.choices
        kept = torch.ones_like(wanted, dtype=torch.bool)
        if routed.layer.capacity is not None:
            held = functional.one_hot(wanted, routed.layer.experts)
            before = (held.cumsum(0) * held).sum(-1) - 1 + self._before(held.sum(0))[wanted]
            kept = before < routed.layer.capacity
        by_choice = self._gathered if routed.dispatch.exchange in {"gathered", "whole"} else self._sent
        return routed.summed(by_choice(routed, wanted, kept))

    def _before(self, counts: Tensor) -> Tensor:
        """How many choices of each expert the ranks with earlier rows have."""
        place, everywhere = 0, counts.unsqueeze(0)
        for axis in reversed(self.data_axes):
            group = self.mesh.get_group(axis)
            place += group.rank() * len(everywhere)
            everywhere = _all_gathered(everywhere, group)
        return everywhere[:place].sum(0)

    def _own(self, routed: Routed) -> slice:
        return chunk(routed.layer.experts, self.group.size(), self.group.rank())

    def _sent(self, routed: Routed, wanted: Tensor, kept: Tensor) -> Tensor:
        """The results of all choices, of which each was sent to the rank of its expert; zeros if dropped."""
        ranks, experts, top = self.group.size(), routed.layer.experts, routed.chosen.shape[1]
        choices = kept.nonzero().squeeze(-1)
        choices = choices[wanted[choices].argsort(stable=True)]
        counts = functional.one_hot(wanted[choices], experts).sum(0)
        everyones = _all_gathered(counts.unsqueeze(0), self.group)  # (source, expert)
        by_rank = [everyones[:, chunk(experts, ranks, rank)].sum(-1).tolist() for rank in range(ranks)]
        here = self.group.rank()
        there, back = [to[here] for to in by_rank], by_rank[here]
        slots = max(map(max, by_rank))
        rows = routed.rows.index_select(0, choices // top)
        received = self._exchange(routed, rows, there, back, slots)
        own = everyones[:, self._own(routed)]
        of_each = torch.arange(own.shape[1], device=own.device).expand_as(own)
        numbers = of_each.flatten().repeat_interleave(own.flatten())
        order = numbers.argsort(stable=True)
        done = self._multiplied(routed, received.index_select(0, order), own.sum(0).tolist())
        returned = self._exchange(routed, done.index_select(0, order.argsort()), back, there, slots)
        empty = returned.new_zeros(len(wanted), returned.shape[1])
        return empty.index_copy(0, choices, returned)

    def _exchange(
        self, routed: Routed, rows: Tensor, there: Sequence[int], back: Sequence[int], slots: int
    ) -> Tensor:
        """What all ranks send this one: `back` rows of each. This one sends `there` rows to each."""
        match routed.dispatch.exchange:
            case "nn":
                empty = rows.new_empty(sum(back), rows.shape[1])
                exchanged = differentiable.all_to_all_single(
                    empty, rows, list(back), list(there), group=self.group
                )
                return cast("Tensor", exchanged)
            case "padded":
                empty = rows.new_zeros(len(there) * slots, rows.shape[1])
                filled = empty.index_copy(0, _places(there, slots, rows.device), rows)
                return self._all_to_all(filled, None, None).index_select(0, _places(back, slots, rows.device))
        return self._all_to_all(rows, list(back), list(there))

    def _all_to_all(self, rows: Tensor, back: list[int] | None, there: list[int] | None) -> Tensor:
        autograd = cast("Any", functional_collectives.all_to_all_single_autograd)
        return cast("Tensor", functional_collectives.wait_tensor(autograd(rows, back, there, self.group)))

    def _gathered(self, routed: Routed, wanted: Tensor, kept: Tensor) -> Tensor:
        """The results of all choices: every rank has all rows and adds what its experts give.

        `whole` leaves the rows of others behind its own, as transformers does it: results of these have a
        weight of zero.
        """
        top, own, experts = routed.chosen.shape[1], self._own(routed), routed.layer.experts
        gather = cast("Any", functional_collectives.all_gather_tensor_autograd)
        scatter = cast("Any", functional_collectives.reduce_scatter_tensor_autograd)
        rows = gather(routed.rows, 0, self.group)
        numbers = _all_gathered(torch.where(kept, wanted, -1), self.group)
        inside = (numbers >= own.start) & (numbers < own.stop)
        choices = torch.where(inside, numbers, experts).argsort(stable=True)
        if routed.dispatch.exchange == "gathered":
            choices = choices[: inside.sum()]
        counts = functional.one_hot(numbers[inside] - own.start, own.stop - own.start).sum(0)
        done = self._multiplied(routed, rows.index_select(0, choices // top), counts.tolist())
        weighted = done * inside[choices].unsqueeze(-1)
        results = done.new_zeros(len(numbers), done.shape[1]).index_copy(0, choices, weighted)
        return cast("Tensor", scatter(results, "sum", 0, self.group))

    def _multiplied(self, routed: Routed, rows: Tensor, counts: list[int]) -> Tensor:
        """The results of this rank's experts for rows in their order, `counts` of each; whole over `tp`."""
        rising, falling = (cast("DTensor", one).to_local() for one in (routed.rising, routed.falling))
        if TENSOR not in (self.mesh.mesh_dim_names or ()):
            return self._product(routed, rows, rising, falling, counts)
        mesh = self.mesh[TENSOR]
        same = DTensor.from_local(rows, mesh, [Replicate()], run_check=False)
        rows = same.to_local(grad_placements=[SUMMED])
        part = self._product(routed, rows, rising, falling, counts)
        added = DTensor.from_local(part, mesh, [Partial()], run_check=False)
        return added.redistribute(placements=[Replicate()]).to_local()

    def _product(
        self, routed: Routed, rows: Tensor, rising: Tensor, falling: Tensor, counts: list[int]
    ) -> Tensor:
        """Of rows behind the last of `counts` zeros, or what `torch._grouped_mm` finds in memory."""
        product = routed.dispatch.product
        if product == "grouped" and _has_kernel(rising) and _has_kernel(falling):
            ends = torch.tensor(counts, device=rows.device).cumsum(0).to(torch.int32)
            hidden = torch._grouped_mm(rows, rising, offs=ends)  # noqa: SLF001  it has no public name
            return torch._grouped_mm(activated(routed.layer.function, hidden), falling, offs=ends)  # noqa: SLF001
        own, behind = rows.split([sum(counts), len(rows) - sum(counts)])
        if product == "batched":
            slots = max(counts)
            empty = rows.new_zeros(len(counts) * slots, rows.shape[1])
            places = _places(counts, slots, rows.device)
            filled = empty.index_copy(0, places, own).unflatten(0, (len(counts), slots))
            done = [routed.through(filled, rising, falling).flatten(0, 1).index_select(0, places)]
        else:
            parts = own.split(counts)
            done = [
                routed.through(*one) for one in zip(parts, rising.unbind(), falling.unbind(), strict=True)
            ]
        return torch.cat([*done, torch.zeros_like(behind)])


def _places(counts: Sequence[int], slots: int, device: torch.device) -> Tensor:
    """Where rows stand of which each of several parts, of `slots` places, has so many."""
    places = [torch.arange(count, device=device) + part * slots for part, count in enumerate(counts)]
    return torch.cat(places)


def _has_kernel(matrices: Tensor) -> bool:
    """Whether `torch._grouped_mm` takes these (experts, inputs, outputs), transposed too, on this device."""
    widths = (size * matrices.element_size() for size in matrices.shape[1:])
    return matrices.dtype != torch.float64 and not any(width % KERNEL_BYTES for width in widths)


def _all_gathered(tensor: Tensor, group: distributed.ProcessGroup) -> Tensor:
    """What all ranks of a group have, along dim 0."""
    everyones = tensor.new_empty(group.size() * len(tensor), *tensor.shape[1:])
    distributed.all_gather_into_tensor(everyones, tensor.contiguous(), group=group)
    return everyones
