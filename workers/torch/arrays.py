"""Numpy's arrays of tensors."""

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Numpy's array of a tensor; dtypes that numpy lacks as float32, quantized numbers as what they mean."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    small = tensor.dtype.is_floating_point and tensor.dtype.itemsize <= 2  # noqa: PLR2004  bytes
    array: npt.NDArray[Any] = (
        (tensor.float() if small and tensor.dtype != torch.float16 else tensor).resolve_conj().numpy()
    )
    return array
