"""Collectives by their definition in MPI, as functions of the rows of all ranks together."""

from difftest.cases.layers.collective import Collective
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
    stacked = np.stack(held)
    reduce = {"sum": stacked.sum, "max": stacked.max, "min": stacked.min}[layer.reduction]
    match layer.operation:
        case "all_reduce":
            return [reduce(0)] * ranks
        case "reduce":
            return [reduce(0), *[np.zeros_like(held[0])] * (ranks - 1)]
        case "reduce_scatter":
            return list(np.split(reduce(0), ranks, axis=-1))
        case "scatter":
            return list(np.split(held[0], ranks, axis=-1))
        case "broadcast":
            return [held[0]] * ranks
        case "all_gather":
            return [np.concatenate(held, axis=-1)] * ranks
        case "all_to_all":
            slices = [np.split(each, ranks, axis=-1) for each in held]
            return [np.concatenate([own[rank] for own in slices], axis=-1) for rank in range(ranks)]
        case "permute":
            return [held[rank - 1] for rank in range(ranks)]
