"""The plan of `parallelize_module` that a layout implies: which layers are split by columns, which by rows, and what flows between."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layout import Replicate, Shard

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

AXIS = "tp"

Style: TypeAlias = tuple[Literal["columns", "rows", "whole"], bool, bool]
"""How a layer is split, whether it takes a local piece of the activations, and whether it gives one."""


def refusal(case: Case) -> str | None:
    """Why no plan expresses the layout over the axis tp, or None."""
    if case.world_size == 1:
        return None
    if case.layout.mesh.names[-1] != AXIS:
        return "tensor parallelism needs the mesh axis tp, and last"
    if case.layout.batch[-1] != Replicate():
        return "tensor parallelism replicates the batch over tp; the layout cuts it"
    found = (_unstyled(case, path, layer) for path, layer in walk(case.model.layers))
    return next((reason for reason in found if reason), None)


def _unstyled(case: Case, path: str, layer: Layer) -> str | None:
    """Why no style gives one layer its placements."""
    if reason := layer.no_style():
        return reason
    placements = {name: _on_tp(case, f"{path}.{name}") for name in layer.shapes()}
    sharded = any(isinstance(p, Shard) for p in placements.values())
    if sharded and layer.TENSOR_PARALLEL == "none":
        return f"parallelize_module has no style that shards a {type(layer).__name__}"
    if layer.TENSOR_PARALLEL == "linear" and "bias" in placements:
        columns = _split(case, layer, path) == "columns"
        if placements["bias"] != (Shard(0) if columns else Replicate()):
            return "the styles shard a bias with a weight split by columns, and only then"
    return None


def plan(case: Case) -> dict[str, Style]:
    """The style of every layer that has parameters, by its path."""
    return dict(_styles(case, case.model.layers, ""))


def styles(case: Case) -> "dict[str, ParallelStyle]":
    """The plan as `parallelize_module` takes it."""
    return {path: _style(style) for path, style in plan(case).items()}


def _styles(case: Case, layers: Sequence[Layer], prefix: str) -> Iterator[tuple[str, Style]]:
    """Activations stay local between a layer split by columns and the next, split by rows, with only activation functions between."""
    local = False
    for index, layer in enumerate(layers):
        path = f"{prefix}{index}"
        if layer.held is not None:
            yield from _styles(case, layer.held, f"{path}.")
        elif layer.TENSOR_PARALLEL == "heads":
            yield from _attention(case, layer, path)
        elif layer.shapes() or layer.borrows():
            split = _split(case, layer, path)
            gives = (
                split == "columns"
                and layer.TENSOR_PARALLEL == "linear"
                and _meets_rows(case, layers, prefix, index)
            )
            yield path, (split, local, gives)
            local = gives


def _attention(case: Case, layer: Layer, path: str) -> Iterator[tuple[str, Style]]:
    """Every rank computes its own heads where they divide; else each projection is made whole again."""
    splits = {name: _split_of(_on_tp(case, f"{path}.{name}.weight")) for name in "qkvo"}
    heads = list(splits.values()) == [
        "columns",
        "columns",
        "columns",
        "rows",
    ] and not layer.key_heads % _size(case)
    for name, split in splits.items():
        yield f"{path}.{name}", (split, heads and name == "o", heads and name != "o")


def _meets_rows(case: Case, layers: Sequence[Layer], prefix: str, index: int) -> bool:
    """Whether the next layer with parameters is split by rows and the width divides (a local tensor says no global width)."""
    for later in range(index + 1, len(layers)):
        layer = layers[later]
        if not layer.ELEMENTWISE:
            divides = layer.TENSOR_PARALLEL == "linear" and not (layer.takes or 0) % _size(case)
            return divides and _split(case, layer, f"{prefix}{later}") == "rows"
    return False


def _split(case: Case, layer: Layer, path: str) -> Literal["columns", "rows", "whole"]:
    """By the placement of the weight over tp; an embedding's weight lies the other way round."""
    split = _split_of(_on_tp(case, layer.borrows().get("weight", f"{path}.weight")))
    if layer.TENSOR_PARALLEL == "embedding":
        return {"columns": "rows", "rows": "columns", "whole": "whole"}[split]  # type: ignore[return-value]
    return split


def _split_of(placement: Shard | Replicate) -> Literal["columns", "rows", "whole"]:
    if isinstance(placement, Replicate):
        return "whole"
    return "rows" if placement.dim else "columns"


def _on_tp(case: Case, name: str) -> Shard | Replicate:
    return case.layout.parameters[name][-1]


def _size(case: Case) -> int:
    return case.layout.mesh.shape[-1]


def _style(style: Style) -> "ParallelStyle":
    from torch.distributed.tensor import Replicate as Whole
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    split, takes, gives = style
    if split == "columns":
        return ColwiseParallel(output_layouts=None if gives else Whole())
    if split == "rows":
        return RowwiseParallel(input_layouts=None if takes else Whole())
    return _whole()


def _whole() -> "ParallelStyle":
    """Parameters replicated over tp as DTensors, so that clipping and the optimizer see one kind (torchtitan's NoParallel)."""
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, distribute_module
    from torch.distributed.tensor import Replicate as TorchReplicate
    from torch.distributed.tensor.parallel import ParallelStyle

    class Whole(ParallelStyle):
        def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
            hooks = cast(
                "tuple[Any, Any]", (self._take, self._give)
            )  # annotated as returning None, though what they return is used
            return distribute_module(module, device_mesh, None, *hooks)

        @staticmethod
        def _take(_module: nn.Module, inputs: tuple[Tensor, ...], device_mesh: DeviceMesh) -> DTensor:
            return DTensor.from_local(inputs[0], device_mesh, (TorchReplicate(),), run_check=False)

        @staticmethod
        def _give(_module: nn.Module, output: DTensor, device_mesh: DeviceMesh) -> Tensor:
            return output.redistribute(device_mesh, (TorchReplicate(),)).to_local()

    return Whole()
