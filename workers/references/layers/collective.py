"""Collectives by their definition in MPI, as functions of the rows of all ranks together."""

import itertools

from difftest.cases.layers.collective import REDUCING, Collective
from workers.references.layers import Array, Context, complete

lacks = complete


def computed(layer: Collective, inputs: Array, context: Context) -> Array:
    """The ranks' rows follow each other in the mesh's order; the group is along one axis of it."""
    np, width = context.numpy, inputs.shape[-1]
    group = np.moveaxis(inputs.reshape(*layer.mesh, -1, width), layer.axis, 0)
    done = np.moveaxis(np.stack(_of_ranks(layer, list(group), context)), 0, layer.axis)
    return done.reshape(len(inputs), layer.outputs) * layer.factor


def _of_ranks(layer: Collective, pieces: list[Array], context: Context) -> list[Array]:
    """What each rank of a group has in the end, of their `pieces`."""
    np, ranks = context.numpy, len(pieces)
    if layer.operation in REDUCING:
        return _of_sums(layer, pieces, context)
    if layer.operation == "all_to_all":
        ends = [list(itertools.accumulate(layer.sent(rank)))[:-1] for rank in range(ranks)]
        slices = [np.split(each, at, axis=-1) for each, at in zip(pieces, ends, strict=True)]
        return [np.concatenate([own[rank] for own in slices], axis=-1) for rank in range(ranks)]
    if layer.operation == "permute":
        return [pieces[rank - 1] for rank in range(ranks)]
    if layer.operation == "gather":
        whole = np.concatenate(pieces, axis=-1)
        return [whole, *[np.zeros_like(whole)] * (ranks - 1)]
    if layer.operation == "scatter":
        return list(np.split(pieces[0], ranks, axis=-1))
    return [pieces[0] if layer.operation == "broadcast" else np.concatenate(pieces, axis=-1)] * ranks


def _of_sums(layer: Collective, pieces: list[Array], context: Context) -> list[Array]:
    """The same of operations that reduce: each rank has the whole or its slice, or the first has it alone."""
    np, ranks = context.numpy, len(pieces)
    stacked = np.stack(pieces)
    ways = {"sum": stacked.sum, "max": stacked.max, "min": stacked.min, "avg": stacked.mean}
    whole = ways[layer.reduction](0)
    if layer.operation == "reduce_scatter":
        return list(np.split(whole, ranks, axis=-1))
    others = whole if layer.operation == "all_reduce" else np.zeros_like(whole)
    return [whole, *[others] * (ranks - 1)]
