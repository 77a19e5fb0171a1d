"""Grouped-query attention by `scaled_dot_product_attention`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from workers.training.blocks import Sizes
from workers.training.modules import by_heads


class GroupedAttention(nn.Module):
    """Projections around the function, with `group` query heads for every key head."""

    def __init__(self, width: int, key_heads: int, group: int, head_dim: int, *, causal: bool) -> None:
        super().__init__()
        self.head_dim, self.causal, self.grouped = head_dim, causal, group > 1
        self.q = nn.Linear(width, key_heads * group * head_dim, bias=False)
        self.k = nn.Linear(width, key_heads * head_dim, bias=False)
        self.v = nn.Linear(width, key_heads * head_dim, bias=False)
        self.o = nn.Linear(key_heads * group * head_dim, width, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, sequence, width) to the same."""
        q, k, v = (by_heads(project(inputs), self.head_dim) for project in (self.q, self.k, self.v))
        heads = functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, enable_gqa=self.grouped
        )
        result: Tensor = self.o(heads.transpose(1, 2).flatten(-2))
        return result


def module(arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The attention."""
    return GroupedAttention(**arguments)
