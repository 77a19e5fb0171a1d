"""Where a tensor axis puts each parameter: as Megatron does, or freely."""

from collections.abc import Mapping

from hypothesis import strategies as st

from difftest.layout import Replicate, Shard
from difftest.model import Activation, Attention, Conv, Embedding, Layer, Linear, Model, Residual, shapes, walk

Chosen = Mapping[str, Shard | Replicate]


@st.composite
def tensor_placements(draw: st.DrawFn, model: Model, *, ranks: int) -> Chosen:
    """One placement a parameter over a tensor axis of `ranks`; most follow Megatron, some are drawn layer by layer, uneven ones too."""
    if draw(st.integers(0, 3)):
        return megatron(model, ranks=ranks)
    chosen: dict[str, Shard | Replicate] = dict.fromkeys(model.parameters(), Replicate())
    for path, layer in walk(model.layers):
        kind = draw(st.sampled_from(("columns", "rows", "whole")))
        chosen |= {f"{path}.{name}": placement for name, placement in _cut(layer, kind, ranks).items()}
    return chosen


def megatron(model: Model, *, ranks: int) -> Chosen:
    """Columns then rows within every block, heads dealt out whole, the vocabulary cut, the rest replicated.

    Shoeybi et al., Megatron-LM, arXiv:1909.08053. What `ranks` does not divide stays whole.
    """
    chosen: dict[str, Shard | Replicate] = dict.fromkeys(model.parameters(), Replicate())
    for path, kind in _roles(model.layers):
        layer = next(layer for p, layer in walk(model.layers) if p == path)
        if _divides(layer, kind, ranks):
            chosen |= {f"{path}.{name}": placement for name, placement in _cut(layer, kind, ranks).items()}
    return chosen


def _roles(layers: tuple[Layer, ...], prefix: str = "") -> list[tuple[str, str]]:
    """Which layers are cut, and how: pairs of linear layers around an activation inside a block, attention, embeddings."""
    roles = []
    for index, layer in enumerate(layers):
        path = f"{prefix}{index}"
        if isinstance(layer, Residual):
            roles += _roles(layer.layers, f"{path}.")
        elif isinstance(layer, Attention | Embedding):
            roles.append((path, "columns" if isinstance(layer, Attention) else "rows"))
        elif prefix and isinstance(layer, Linear):
            roles.append((path, "columns" if isinstance(_after(layers, index), Activation) else "rows"))
    return roles


def _after(layers: tuple[Layer, ...], index: int) -> Layer | None:
    return layers[index + 1] if index + 1 < len(layers) else None


def _divides(layer: Layer, kind: str, ranks: int) -> bool:
    match layer:
        case Linear():
            return (layer.outputs if kind == "columns" else layer.inputs) % ranks == 0
        case Embedding():
            return layer.vocabulary % ranks == 0
        case _:
            return True


def _cut(layer: Layer, kind: str, ranks: int) -> Chosen:
    """A layer's parameters by their own names, cut by columns (outputs), by rows (inputs), or not at all."""
    own = shapes(layer)
    if kind == "whole" or not own:
        return {}
    match layer:
        case Linear():
            return {name: _of_linear(name, kind) for name in own}
        case Attention() if layer.kv_heads % ranks == 0:
            return {name: Shard(1 if name == "o.weight" else 0) for name in own}
        case Embedding():
            return {"weight": Shard(0 if kind == "rows" else 1)}
        case Conv() if kind == "columns":
            return dict.fromkeys(own, Shard(0))
        case _:
            return {}


def _of_linear(name: str, kind: str) -> Shard | Replicate:
    if kind == "columns":
        return Shard(0)
    return Shard(1) if name == "weight" else Replicate()
