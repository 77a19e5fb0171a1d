"""What a module was given in a step, and its parameters: what `difftest case --from` makes a case of.

DTensors are gathered, which all ranks of their mesh do at the same call.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from difftest.runs.layout import ARGUMENT, PARAMETER

PLAIN = (int, float, str, bool, type(None))


def given(
    path: str, module: nn.Module, arguments: Sequence[object], keywords: Mapping[str, object]
) -> Iterator[tuple[str, Tensor]]:
    """The arrays to keep, by name: parameters and buffers, tensors among the arguments, and their form.

    The form is JSON, in bytes: `{"tensor": 0}` stands for the first tensor; `rows` are those of the batch.
    """
    tensors: list[Tensor] = []
    form: dict[str, Any] = {
        "arguments": [_form(one, tensors) for one in arguments],
        "keywords": {name: _form(one, tensors) for name, one in keywords.items()},
        "rows": [],
    }
    form["rows"] = _rows(tensors)
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            yield f"{PARAMETER}:{path}:{name}", _whole(tensor)
        for number, tensor in enumerate(tensors):
            yield f"{ARGUMENT}:{path}:{number}", _whole(tensor)
        text = bytearray(msgspec.json.encode(form))
        yield f"{ARGUMENT}:{path}", torch.frombuffer(text, dtype=torch.uint8)


def _rows(tensors: Sequence[Tensor]) -> list[int]:
    """The tensors whose dim 0 is the batch's, which is that of the first one.

    A vector or a matrix of that size by chance, such as a scale, is no result of parameters and no index.
    """
    first = next((one for one in tensors if one.dim()), None)
    return [
        number
        for number, one in enumerate(tensors)
        if first is not None
        and one.dim()
        and one.shape[0] == first.shape[0]
        and (one is first or one.requires_grad or not one.is_floating_point() or one.dim() > 2)  # noqa: PLR2004
    ]


def _form(value: object, tensors: list[Tensor]) -> dict[str, Any]:
    """A value as JSON, its tensors numbered. What is neither plain nor a collection has its class's name."""
    match value:
        case Tensor():
            tensors.append(value)
            return {"tensor": len(tensors) - 1}
        case dict():
            return {"dict": {str(key): _form(one, tensors) for key, one in value.items()}}
        case list() | tuple():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [_form(one, tensors) for one in value]}
        case _ if isinstance(value, PLAIN):
            return {"value": value}
    return {"object": type(value).__name__}


def _whole(tensor: Any) -> Tensor:  # noqa: ANN401  a DTensor or a Tensor
    whole: Tensor = tensor.detach()
    if hasattr(whole, "full_tensor"):
        whole = whole.full_tensor()
    return whole.clone()
