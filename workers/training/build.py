"""From model data to a `torch.nn.Module`, made of torch's own layers so that wrappers know them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases import layers as data
from difftest.cases.model import Model
from difftest.cases.numbers import Floats
from workers.training import modules
from workers.training.operators import Operators

Extras: TypeAlias = Mapping[str, Tensor]
TorchLayer: TypeAlias = (
    data.Linear | data.Activation | data.LayerNorm | data.RMSNorm | data.Embedding | data.Conv
)
NO_EXTRAS: Extras = MappingProxyType({})

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


class Chain(nn.Sequential):
    """Layers in order; `extras`, what single layers read beside their input (`difftest.cases.numbers.Batch`), go to those that do."""

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Tensor:
        """(batch, [sequence,] width) to the same with the last layer's width."""
        for layer in self:
            inputs = layer(inputs, extras) if isinstance(layer, READERS) else layer(inputs)
        return inputs


class Residual(Chain):
    """The input plus what its layers make of it, computed again in the backward pass by `recompute`, where one is set.

    A block whose input needs no gradient is not: the checkpointing that XLA has (it is reentrant) would cut it off from the loss.
    """

    recompute: Callable[..., Tensor] | None = None

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Tensor:
        """Same shape out as in."""
        if self.recompute and inputs.requires_grad:
            return inputs + self.recompute(super().forward, inputs, extras)
        return inputs + super().forward(inputs, extras)


class Dropout(nn.Module):
    """Multiplies by the mask of its path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.mask = f"mask {path}"

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """Same shape out as in."""
        return inputs * extras[self.mask]


class SequenceConv(nn.Conv1d):
    """A convolution along dim 1 of (batch, sequence, width)."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, inputs) to (batch, sequence, outputs)."""
        return super().forward(inputs.transpose(1, 2)).transpose(1, 2)


class Attention(nn.Module):
    """Softmax attention written from primitive operators, which every backend can partition.

    Head counts are read off the projections' widths, so that a rank which holds some of the heads computes just those.
    """

    def __init__(self, spec: data.Attention, sequence: int) -> None:
        super().__init__()
        kv = spec.kv_heads * spec.head_dim
        self.head_dim, self.causal, self.segments = spec.head_dim, spec.causal, spec.segments
        self.group = spec.heads // spec.kv_heads
        self.q = nn.Linear(spec.width, spec.width, bias=False)
        self.k = nn.Linear(spec.width, kv, bias=False)
        self.v = nn.Linear(spec.width, kv, bias=False)
        self.o = nn.Linear(spec.width, spec.width, bias=False)
        self.register_buffer(
            "future", torch.ones(sequence, sequence, dtype=torch.bool).triu(1), persistent=False
        )

    def forward(self, inputs: Tensor, extras: Extras) -> Tensor:
        """(batch, sequence, width) to the same; reads `segments`, (batch, sequence) ids."""
        query = modules.by_heads(self.q(inputs), self.head_dim)
        key = modules.by_heads(self.k(inputs), self.head_dim, self.group)
        value = modules.by_heads(self.v(inputs), self.head_dim, self.group)
        scores = query @ key.transpose(-1, -2) * self.head_dim**-0.5
        if self.causal:
            scores = scores.masked_fill(cast("Tensor", self.future), float("-inf"))
        if self.segments:
            segments = extras["segments"]
            other = (
                segments.unsqueeze(-1) == segments.unsqueeze(-2)
            ).logical_not()  # DTensor has a rule for ==, none for !=
            scores = scores.masked_fill(other.unsqueeze(1), float("-inf"))
        mixed = functional.softmax(scores, dim=-1) @ value
        return cast("Tensor", self.o(mixed.transpose(1, 2).flatten(2)))


READERS = (Attention, Dropout, Residual, modules.FlashAttention)
"""Modules that are given the extras."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What the layers are built from beside their own data."""

    model: Model
    operators: Operators
    checkpointing: bool


def build(
    model: Model,
    weights: Mapping[str, Floats],
    dtype: torch.dtype,
    operators: Operators,
    *,
    checkpointing: bool = False,
) -> nn.Module:
    """The module on the host with `weights` in `dtype`; parameter names are `model.parameters()`'s.

    `checkpointing`: residual blocks are computed again in the backward pass.
    """
    plan = _Plan(model=model, operators=operators, checkpointing=checkpointing)
    chain = Chain(*(_layer(layer, plan, str(index)) for index, layer in enumerate(model.layers)))
    tie(chain, model)
    chain = chain.to(dtype)
    chain.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()}, strict=False)
    return chain


def tie(module: nn.Module, model: Model) -> None:
    """Shares tied weights, also again: moving or replacing parameters can leave every module with one of its own."""
    for path, layer in data.walk(model.layers):
        if isinstance(layer, data.Linear) and layer.tied:
            module.get_submodule(path).register_parameter(
                "weight", module.get_submodule("0").get_parameter("weight")
            )


def _layer(layer: data.Layer, plan: _Plan, path: str) -> nn.Module:
    match layer:
        case data.Attention():
            return Attention(layer, plan.model.sequence)
        case data.Residual():
            block = Residual(
                *(_layer(inner, plan, f"{path}.{index}") for index, inner in enumerate(layer.layers))
            )
            block.recompute = plan.operators.recompute if plan.checkpointing else None
            return block
        case data.Dropout():
            return Dropout(path)
        case data.FlashAttention() | data.Collective() | data.Redistribute():
            return modules.MODULES[type(layer)](layer, plan.operators)
        case _:
            return _torch_layer(layer)


def _torch_layer(layer: TorchLayer) -> nn.Module:
    match layer:
        case data.Linear():
            return nn.Linear(layer.inputs, layer.outputs, bias=layer.bias)
        case data.Activation():
            return ACTIVATIONS[layer.function]()
        case data.LayerNorm():
            return nn.LayerNorm(layer.width)
        case data.RMSNorm():
            return nn.RMSNorm(layer.width, eps=1e-6)
        case data.Embedding():
            return nn.Embedding(layer.vocabulary, layer.width)
        case data.Conv():
            return SequenceConv(layer.inputs, layer.outputs, layer.kernel, padding=layer.kernel // 2)
