"""Which modules `fully_shard` gathers by themselves: those with a wrapper of their own inside the model's."""

import itertools

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layout import Shard


def axes_apart(case: Case) -> dict[str, str]:
    """The mesh axis over which each layer's parameters are sharded, where it is not the same for all.

    Every rank then has the whole batch: a layer's gradients are averaged over its own axis, and equal over
    the others. Empty where the layout is another, or a layer is on several axes.
    """
    layout = case.layout
    if any(isinstance(at, Shard) for at in layout.batch):
        return {}
    axes: dict[str, set[str]] = {}
    for name, placements in layout.parameters.items():
        held = zip(layout.mesh.names, placements, strict=True)
        axes.setdefault(name.partition(".")[0], set()).add(
            " ".join(axis for axis, at in held if isinstance(at, Shard))
        )
    alone = {path: own.pop() for path, own in axes.items() if len(own) == 1}
    fits = len(alone) == len(axes) and {*alone.values()} <= {*layout.mesh.names}
    return alone if fits and len({*alone.values()}) > 1 else {}


def resting(case: Case) -> list[str]:
    """The paths of what is gathered by itself and not needed in the backward pass: embeddings."""
    layers = dict(walk(case.model.layers))
    wanted = case.sharded_by.embeddings_resting
    return [path for path in gathered_alone(case) if wanted and isinstance(layers.get(path), Embedding)]


def prefetched(case: Case) -> list[tuple[str, str, str]]:
    """Pairs of modules that are gathered by themselves, one after the other, each with a pass.

    The first gathers the second ahead in it.
    """
    pairs = list(itertools.pairwise(reversed(gathered_alone(case))))
    forward = [("forward", earlier, later) for earlier, later in pairs]
    backward = [("backward", later, earlier) for earlier, later in pairs]
    wanted = case.sharded_by.prefetched
    return [one for one in (*forward, *backward) if wanted in (one[0], "both")]


def widened_alone(case: Case) -> bool:
    """Whether each may give float32: all parameters belong to one of them, and none is inside another."""
    alone = [f"{path}." for path in (*gathered_alone(case), *gathered_together(case))]
    return all(sum(name.startswith(path) for path in alone) == 1 for name in case.model.parameters())


def gathered_together(case: Case) -> list[str]:
    """The paths of the layers that are one group, as of an embedding with the head; most cases have none."""
    layers = _gathered(case) if case.sharded_by.wrapped == "groups" else []
    return [layers[-1], layers[0]] if len(layers) > 1 else []


def gathered_alone(case: Case) -> list[str]:
    """Their paths, innermost first, as the case's `sharding` says."""
    together = gathered_together(case)
    return [path for path in _gathered(case) if path not in together]


def _gathered(case: Case) -> list[str]:
    """The paths of what is not gathered with the whole model, innermost first.

    None of them shares a parameter, unless ties are to be wrapped: modules that do belong in one group, which
    is the whole model's.
    """
    layers = list(walk(case.model.layers))
    tied = [f"{path}.{name}".rpartition(".")[0] for path, layer in layers for name in layer.borrows()]
    tied += [name.rpartition(".")[0] for _, layer in layers for name in layer.borrows().values()]
    match case.sharded_by.wrapped:
        case "blocks":
            wrapped = [path for path, layer in layers if layer.held is not None]
        case "layers" | "ties" | "groups":
            wrapped = [
                inner
                for path, layer in layers
                if layer.shapes() and layer.held is None
                for inner in (path, *(f"{path}.{block}" for block in layer.blocks_inside()))
            ]
        case "whole":
            wrapped = []
    if case.sharded_by.wrapped == "ties":
        return wrapped[::-1]
    return [path for path in reversed(wrapped) if not any(f"{one}.".startswith(f"{path}.") for one in tied)]
