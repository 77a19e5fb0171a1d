"""A model as layers that carry the placements of their own parameters.

Parameters are named by their layer's index, so a layer that is removed would rename those of all later
layers. In a model taken apart, each layer has its own placements with it; when it is put together again,
names and widths follow from the layers that are left.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import msgspec

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, Shard, replicated
from difftest.cases.model import Model, width_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A layer, the placements of its own parameters by its own names, and the layers that it holds.

    A tied layer has the placements of the weight that it borrows, so that it can be given one of its own.
    """

    layer: Layer
    placements: Mapping[str, Placements]
    inner: tuple["Placed", ...] = ()


Edit: TypeAlias = Callable[[str, Placed], Iterable[Placed]]
"""The layers that replace the layer at a path: none, one or several."""


def taken_apart(case: Case) -> tuple[Placed, ...]:
    """The model's layers with their placements."""
    return _apart(case, case.model.layers, "")


def _apart(case: Case, layers: Iterable[Layer], prefix: str) -> tuple[Placed, ...]:
    parameters = case.layout.parameters

    def one(path: str, layer: Layer) -> Placed:
        own = {name: parameters[f"{path}.{name}"] for name in (*layer.shapes(), *layer.buffers())}
        borrowed = {name: parameters[source] for name, source in layer.borrows().items()}
        inner = _apart(case, layer.held, f"{path}.") if layer.held else ()
        return Placed(layer=layer, placements=own | borrowed, inner=inner)

    return tuple(one(f"{prefix}{index}", layer) for index, layer in enumerate(layers))


def edited(case: Case, edit: Edit, **rest: Any) -> Case:  # noqa: ANN401  what `put_together` takes
    """The case with every layer edited, those in a container first; `ValueError` if that is no valid case."""
    return put_together(case, _edited(taken_apart(case), edit, ""), **rest)


def _edited(layers: tuple[Placed, ...], edit: Edit, prefix: str) -> tuple[Placed, ...]:
    """A container that has lost all its layers is dropped."""
    left: list[Placed] = []
    for index, placed in enumerate(layers):
        path = f"{prefix}{index}"
        inner = _edited(placed.inner, edit, f"{path}.")
        if inner or not placed.inner:
            left += edit(path, replace(placed, inner=inner))
    return tuple(left)


def put_together(
    case: Case,
    layers: tuple[Placed, ...],
    *,
    mesh: Mesh | None = None,
    batch: Placements | None = None,
    sequence: int | None = None,
    **rest: Any,  # noqa: ANN401  other parts of a case
) -> Case:
    """The case with these layers, each fitted to the width of its input, and with other parts replaced.

    `rest` are fields of the case. A parameter that is new, or lacks the dim that its placement shards, is
    replicated. `ValueError` if that is no valid case.
    """
    mesh = mesh or case.layout.mesh
    width = width_in(_plain(layers)) or 1
    first = layers[0].layer if layers else None
    fitted, _ = _fitted(layers, width, first)
    model = Model(layers=_plain(fitted), sequence=case.model.sequence if sequence is None else sequence)
    placed = _named(fitted, "")
    parameters = {
        name: _possible(placed.get(name) or replicated(mesh), shape)
        for name, shape in model.tensors().items()
    }
    layout = Layout(mesh=mesh, batch=batch or case.layout.batch, parameters=parameters)
    if case.staged and "pipeline" not in rest:
        rest["pipeline"] = case.staged.fitted(len(layers))
    return msgspec.structs.replace(case, model=model, layout=layout, **rest)


def _plain(layers: Iterable[Placed]) -> tuple[Layer, ...]:
    return tuple(
        placed.layer.holding(_plain(placed.inner)) if placed.inner else placed.layer for placed in layers
    )


def _named(layers: Iterable[Placed], prefix: str) -> dict[str, Placements]:
    """The placements by the parameters' names in the model."""
    named: dict[str, Placements] = {}
    for index, placed in enumerate(layers):
        path = f"{prefix}{index}"
        named |= {f"{path}.{name}": where for name, where in placed.placements.items()} | _named(
            placed.inner, f"{path}."
        )
    return named


def _possible(placements: Placements, shape: tuple[int, ...]) -> Placements:
    return tuple(Replicate() if isinstance(p, Shard) and p.dim >= len(shape) else p for p in placements)


def _fitted(layers: tuple[Placed, ...], width: int, first: Layer | None) -> tuple[tuple[Placed, ...], int]:
    """The layers with widths that follow from the layer before, and the width at the end."""
    left: list[Placed] = []
    for placed in layers:
        if placed.inner:
            left.append(replace(placed, inner=_ending_at(placed.inner, width, first)))
        else:
            layer = placed.layer.fitted(width, first)
            left.append(replace(placed, layer=layer))
            width = layer.gives(width)
    return tuple(left), width


def _ending_at(layers: tuple[Placed, ...], width: int, first: Layer | None) -> tuple[Placed, ...]:
    """The layers of a container, changed to end at the width they begin with.

    The last layer that changes the width is given outputs of that width.
    """
    fitted, end = _fitted(layers, width, first)
    if end == width:
        return fitted
    last, layer = max(
        (index, layer)
        for index, placed in enumerate(fitted)
        if (layer := placed.layer.ending_at(width)) is not None
    )
    changed = replace(fitted[last], layer=layer)
    return (*fitted[:last], changed, *_fitted(fitted[last + 1 :], width, first)[0])
