"""Collectives by their definition in MPI, as functions of the rows of all ranks together."""

from difftest.cases.layers.collective import REDUCING, Collective
from workers.references.layers import Array, Given, complete

lacks = complete


def computed(layer: Collective, inputs: Array, given: Given) -> Array:
    """The ranks' rows follow each other in the mesh's order; the group is along one axis of it."""
    np, width = given.numpy, inputs.shape[-1]
    group = np.moveaxis(inputs.reshape(*layer.mesh, -1, width), layer.axis, 0)
    done = np.moveaxis(np.stack(_of_ranks(layer, list(group), given)), 0, layer.axis)
    return done.reshape(len(inputs), layer.outputs) * layer.factor


def _of_ranks(layer: Collective, held: list[Array], given: Given) -> list[Array]:
    """What each rank of a group has in the end, of what they `held`."""
    np, ranks = given.numpy, len(held)
    if layer.operation in REDUCING:
        return _of_sums(layer, held, given)
    if layer.operation == "all_to_all":
        slices = [np.split(each, ranks, axis=-1) for each in held]
        return [np.concatenate([own[rank] for own in slices], axis=-1) for rank in range(ranks)]
    if layer.operation == "permute":
        return [held[rank - 1] for rank in range(ranks)]
    if layer.operation == "gather":
        whole = np.concatenate(held, axis=-1)
        return [whole, *[np.zeros_like(whole)] * (ranks - 1)]
    if layer.operation == "scatter":
        return list(np.split(held[0], ranks, axis=-1))
    return [held[0] if layer.operation == "broadcast" else np.concatenate(held, axis=-1)] * ranks


def _of_sums(layer: Collective, held: list[Array], given: Given) -> list[Array]:
    """The same of operations that reduce: each rank has the whole or its slice, or the first has it alone."""
    np, ranks = given.numpy, len(held)
    stacked = np.stack(held)
    ways = {"sum": stacked.sum, "max": stacked.max, "min": stacked.min, "avg": stacked.mean}
    whole = ways[layer.reduction](0)
    if layer.operation == "reduce_scatter":
        return list(np.split(whole, ranks, axis=-1))
    others = whole if layer.operation == "all_reduce" else np.zeros_like(whole)
    return [whole, *[others] * (ranks - 1)]
