"""Attention written from primitive operators."""

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from difftest.cases.layer import Layer, Parameters, Removable
from difftest.cases.layers.linear import Linear

FEW_HEADS = ((1, 1), (2, 2), (2, 1))
"""The numbers of heads, and of heads of keys and values, that a reduction tries, in order.

Alone, shared by two ranks, and grouped.
"""


class Attention(Layer, frozen=True, kw_only=True, tag="attention"):
    """Multi-head attention from primitive operators, with projections `q`, `k`, `v` and `o`.

    Fewer `kv_heads` than `heads` is grouped-query attention.

    `segments`: a position attends only to positions of its own segment id (packed sequences).
    """

    NEEDS_SEQUENCE: ClassVar[bool] = True
    ATTENTION_QUERIES: ClassVar[tuple[str, ...]] = ("q.weight",)
    BUFFERS: ClassVar[int] = 1
    TENSOR_PARALLEL: ClassVar[Literal["heads"]] = "heads"
    TAKES_PIECES: ClassVar[bool] = True
    PLAIN_WEIGHT: ClassVar[str] = "q.weight"

    width: int
    heads: int
    kv_heads: int
    causal: bool = True
    segments: bool = False

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        """How many heads keys and values have."""
        return self.kv_heads

    def shapes(self) -> Parameters:
        """Four projections without a bias."""
        kv = self.kv_heads * self.head_dim
        return {
            "q.weight": (self.width, self.width),
            "k.weight": (kv, self.width),
            "v.weight": (kv, self.width),
            "o.weight": (self.width, self.width),
        }

    @property
    def reads_segments(self) -> bool:
        """Whether positions attend within their segment."""
        return self.segments

    def contradiction(self) -> str:
        """Heads are equally wide, and groups of heads equally large."""
        if self.width % self.heads or self.heads % self.kv_heads:
            counts = f"width {self.width}, heads {self.heads}, kv_heads {self.kv_heads}"
            return f"{counts}; each must divide the one before"
        return ""

    @property
    def complexity(self) -> int:
        """As much as its projections."""
        return 4

    def removable(self) -> tuple[Removable, ...]:
        """Masks, and groups of heads."""
        parts: tuple[tuple[bool, Removable], ...] = (
            (self.causal, ("is causal", {"causal": False})),
            (self.segments, ("reads segments", {"segments": False})),
            (self.kv_heads != self.heads, ("has grouped heads", {"kv_heads": self.heads})),
        )
        return tuple(part for present, part in parts if present)

    def plainer(self) -> Linear:
        """A projection of the same width."""
        return Linear(inputs=self.width, outputs=self.width, bias=False)

    def smaller_forms(self) -> Iterator[tuple[str, Layer]]:
        """One or two heads."""
        for heads, kv_heads in FEW_HEADS:
            if heads < self.heads and (self.kv_heads < self.heads or kv_heads == heads):
                yield (
                    f"has {self.heads} heads",
                    msgspec.structs.replace(self, heads=heads, kv_heads=kv_heads),
                )

    def fitted(self, width: int, first: Layer | None) -> "Attention":
        """With fewer heads where they do not divide the width."""
        heads = math.gcd(self.heads, width)
        return msgspec.structs.replace(
            self, width=width, heads=heads, kv_heads=math.gcd(self.kv_heads, heads)
        )

    def features(self) -> Iterator[str]:
        """Masks, and groups of heads."""
        yield "causal" if self.causal else "not causal"
        yield f"{'grouped' if self.kv_heads < self.heads else 'equal'} heads"
        yield f"segments {self.segments}"

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class."""
        flags = [f"{flag}=True" for flag in ("causal", "segments") if getattr(self, flag)]
        return f"Attention({', '.join([str(self.width), str(self.heads), str(self.kv_heads), *flags])})"
