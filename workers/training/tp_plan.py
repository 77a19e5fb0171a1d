"""The plan of `parallelize_module` that a layout implies.

It says which layers are split by columns, which by rows, and whether activations between them are local
pieces.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layout import Placement, Replicate, Shard

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

AXIS = "tp"

Style: TypeAlias = tuple[Literal["columns", "rows", "whole"], bool, bool]
"""How a layer is split, whether it takes a local piece of the activations, and whether it gives one."""


def refusal(case: Case) -> str | None:
    """Why no plan expresses the layout over the axis tp, or None."""
    if case.model.own:
        return case.model.own.no_style()
    if case.world_size == 1:
        return None
    if case.layout.mesh.names[-1] != AXIS:
        return "tensor parallelism needs the mesh axis tp, and last"
    if case.layout.batch[-1] != Replicate():
        return "tensor parallelism replicates the batch over tp; the layout cuts it"
    reasons = (_no_style(case, path, layer) for path, layer in walk(case.model.layers))
    return next((reason for reason in reasons if reason), None)


def _no_style(case: Case, path: str, layer: Layer) -> str | None:
    """Why no style gives a layer its placements, or None."""
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
    """The styles of these layers, by path.

    Activations stay local between a layer split by columns and the next, split by rows, if only activation
    functions are between.
    """
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
    """The styles of attention's projections.

    Every rank computes its own heads if they divide evenly; otherwise each projection's output is made whole.
    """
    splits = {name: _split_of(_on_tp(case, f"{path}.{name}.weight")) for name in "qkvo"}
    by_heads = ["columns", "columns", "columns", "rows"]
    heads = list(splits.values()) == by_heads and not layer.key_heads % _size(case)
    for name, split in splits.items():
        yield f"{path}.{name}", (split, heads and name == "o", heads and name != "o")


def _meets_rows(case: Case, layers: Sequence[Layer], prefix: str, index: int) -> bool:
    """Whether the next layer with parameters is split by rows and its width divides.

    A local tensor does not know the global width.
    """
    for later in range(index + 1, len(layers)):
        layer = layers[later]
        if not layer.ELEMENTWISE:
            divides = layer.TENSOR_PARALLEL == "linear" and not (layer.takes or 0) % _size(case)
            return divides and _split(case, layer, f"{prefix}{later}") == "rows"
    return False


def _split(case: Case, layer: Layer, path: str) -> Literal["columns", "rows", "whole"]:
    """How a layer is split, by the placement of its weight; an embedding's weight is (inputs, outputs)."""
    split = _split_of(_on_tp(case, layer.borrows().get("weight", f"{path}.weight")))
    if layer.TENSOR_PARALLEL == "embedding":
        return {"columns": "rows", "rows": "columns", "whole": "whole"}[split]  # type: ignore[return-value]
    return split


def _split_of(placement: Placement) -> Literal["columns", "rows", "whole"]:
    if not isinstance(placement, Shard):
        return "whole"
    return "rows" if placement.dim else "columns"


def _on_tp(case: Case, name: str) -> Placement:
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
    """Parameters replicated over tp as DTensors, like torchtitan's NoParallel.

    Clipping and the optimizer then have tensors of one kind.
    """
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, distribute_module
    from torch.distributed.tensor import Replicate as TorchReplicate
    from torch.distributed.tensor.parallel import ParallelStyle

    class Whole(ParallelStyle):
        def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
            # The parameters are annotated as returning None, although the results are used.
            hooks = cast("tuple[Any, Any]", (self._take, self._give))
            return distribute_module(module, device_mesh, None, *hooks)

        @staticmethod
        def _take(_module: nn.Module, inputs: tuple[Tensor, ...], device_mesh: DeviceMesh) -> DTensor:
            return DTensor.from_local(inputs[0], device_mesh, (TorchReplicate(),), run_check=False)

        @staticmethod
        def _give(_module: nn.Module, output: DTensor, device_mesh: DeviceMesh) -> Tensor:
            return output.redistribute(device_mesh, (TorchReplicate(),)).to_local()

    return Whole()
