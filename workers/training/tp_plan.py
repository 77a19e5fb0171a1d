"""The plan of `parallelize_module` that a layout implies.

It says which layers are split by columns, which by rows, and whether activations between them are local
pieces.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from difftest.cases.case import Case
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.own import Own
from difftest.cases.layout import ALONE, Placement, Replicate, Shard
from difftest.cases.regions import norms

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.tensor.parallel import ParallelStyle

AXIS = "tp"

Local: TypeAlias = bool | Literal["sequence", "classes"]
"""Whether activations are local pieces of what is between two layers, of the sequence, or of the classes.

False: they are whole.
"""

Style: TypeAlias = tuple[Literal["columns", "rows", "whole", "inputs"], Local, Local]
"""How a layer is split, which local piece of the activations it takes, and which it gives.

`inputs`: its inputs alone are gathered, for the layers in it.
"""


def refusal(case: Case) -> str | None:
    """Why no plan expresses the layout over the axis tp, or None."""
    if case.model.own and (reason := case.model.own.no_style()):
        return reason
    if case.layout.mesh == ALONE:
        return None
    if case.layout.mesh.names[-1] != AXIS:
        return "tensor parallelism needs the mesh axis tp, and last"
    if case.layout.batch[-1] != Replicate():
        return "tensor parallelism replicates the batch over tp; the layout cuts it"
    if case.model.own:
        return _other_than_planned(case, case.model.own)
    reasons = (_no_style(case, path, layer) for path, layer in walk(case.model.layers))
    return next((reason for reason in reasons if reason), _no_region(case))


def _other_than_planned(case: Case, own: Own) -> str | None:
    """Why the user's plan of styles does not give a layout, or None."""
    if _size(case) not in (1, *own.styled_on):
        return f"the model does not run by its tp_plan on {_size(case)} ranks"
    planned = own.styled_placements()
    if _size(case) > 1 and any(_on_tp(case, f"0.{name}") != at for name, at in planned.items()):
        return "tp_plan gives other placements over tp than the layout"
    if case.training.clip_norm is not None and {*own.parameters} != {*own.styled}:
        return "clip_grad_norm_ takes no mixture of DTensors and the plain parameters that tp_plan leaves"
    return None


def _no_region(case: Case) -> str | None:
    """Why no styles cut the activations as the case's `regions` say, or None."""
    layers = [layer for _, layer in walk(case.model.layers)]
    if case.cut_by.sequence:
        if not case.model.sequence or case.model.sequence % _size(case):
            return "SequenceParallel takes pieces of the sequence that are equally long"
        if not all(layer.TAKES_PIECES for layer in layers) or not layers[0].shapes():
            return "a layer of this model needs more of the sequence than its rank's piece"
    if case.cut_by.loss != "whole" and not _has_classes(case):
        return "loss_parallel needs a last layer that is split by columns, and cross-entropy"
    return None


def _has_classes(case: Case) -> bool:
    """Whether the last layer gives every rank classes of its own."""
    last, path = case.model.layers[-1], str(len(case.model.layers) - 1)
    splits = last.TENSOR_PARALLEL == "linear" and _split(case, last, path) == "columns"
    return splits and case.training.loss == "cross_entropy"


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
    usual = dict(_styles(case, case.model.layers, ""))
    last = str(len(case.model.layers) - 1)
    if case.cut_by.sequence and case.world_size > 1:
        # The paths of the attentions that gather their inputs once: their projections are all by columns
        columns = [
            path
            for path in _attentions(case)
            if all(usual[f"{path}.{name}"][0] == "columns" for name in "qkv")
        ]
        once = columns if case.cut_by.prepared else []
        usual = {path: _in_sequence(case, path, style, once) for path, style in usual.items()}
        usual |= dict.fromkeys(once, ("inputs", "sequence", False))
    if case.cut_by.loss != "whole" and case.world_size > 1:
        usual[last] = (*usual[last][:2], "classes")
    return usual


def _in_sequence(case: Case, path: str, style: Style, once: Sequence[str]) -> Style:
    """The style with pieces of the sequence where activations were whole.

    What the model is given and what it gives is whole. Attention needs all positions between its projections,
    and those in `once` gather them ahead of these.
    """
    attentions = _attentions(case)
    own, _, name = path.rpartition(".")
    needs_all, gives_all = own in attentions and name == "o", own in attentions and name != "o"
    last = path == str(len(case.model.layers) - 1)
    split, takes, gives = style
    gathered = gives_all and own in once
    takes = takes or (False if path == "0" or needs_all or gathered else "sequence")
    return split, takes, gives or (False if last or gives_all else "sequence")


def _attentions(case: Case) -> list[str]:
    """The paths of the layers that are split by heads."""
    return [path for path, layer in walk(case.model.layers) if layer.TENSOR_PARALLEL == "heads"]


def styles(case: Case, module: "nn.Module") -> "dict[str, ParallelStyle]":
    """The plan as `parallelize_module` takes it; that of a user's `module` is her own."""
    if case.model.own:
        from workers.own import styles as own_styles

        return own_styles.of_case(case, module)
    of_norms = norms(case)
    return {path: _style(style, norm=path in of_norms) for path, style in plan(case).items()}


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


def _style(style: Style, *, norm: bool) -> "ParallelStyle":
    from torch.distributed.tensor import Replicate as Whole
    from torch.distributed.tensor import Shard as Cut
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
    )

    split, takes, gives = style
    kinds = {False: Whole(), True: None, "sequence": Cut(1), "classes": Cut(-1)}
    if split == "inputs":
        given, gathered = cast("Any", (Cut(1), None)), cast("Any", (Whole(), None))  # torch: of one input
        return PrepareModuleInput(input_layouts=given, desired_input_layouts=gathered, use_local_output=True)
    if split == "columns":
        inputs = Cut(1) if takes == "sequence" else None
        return ColwiseParallel(
            input_layouts=inputs, output_layouts=kinds[gives], use_local_output=gives != "classes"
        )
    if split == "rows":
        return RowwiseParallel(
            input_layouts=kinds[takes], output_layouts=None if gives is False else kinds[gives]
        )
    if norm and takes == gives == "sequence":
        return SequenceParallel(use_local_output=True)
    return _whole(kinds[takes], kinds[gives])


def _whole(takes: Any, gives: Any) -> "ParallelStyle":  # noqa: ANN401  placements
    """Parameters replicated over tp as DTensors, like torchtitan's NoParallel.

    Clipping and the optimizer then have tensors of one kind.
    """
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, distribute_module
    from torch.distributed.tensor import Replicate as Replicated
    from torch.distributed.tensor.parallel import ParallelStyle

    class Whole(ParallelStyle):
        def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
            # The parameters are annotated as returning None, although the results are used.
            hooks = cast("tuple[Any, Any]", (self._take, self._give))
            return distribute_module(module, device_mesh, None, *hooks)

        @staticmethod
        def _take(_module: nn.Module, inputs: tuple[Tensor, ...], device_mesh: DeviceMesh) -> DTensor:
            whole = DTensor.from_local(inputs[0], device_mesh, (takes,), run_check=False)
            return whole.redistribute(device_mesh, (Replicated(),))

        @staticmethod
        def _give(_module: nn.Module, output: DTensor, device_mesh: DeviceMesh) -> Tensor:
            return output.redistribute(device_mesh, (gives,)).to_local()

    return Whole()
