"""Attention by each side's flash kernel."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from difftest.cases.layer import MOST_FACTOR, Layer, Parameters, Removable
from difftest.cases.layers.attention import FEW_HEADS
from difftest.cases.layers.linear import Linear

BLOCK = 128
"""Flash kernels take lengths in blocks of this many positions."""


class FlashAttention(Layer, frozen=True, kw_only=True, tag="flash_attention"):
    """Multi-head attention by each side's flash kernel.

    The projections `q`, `k`, `v` map to `heads * head_dim`, and `o` maps back.

    `length` is the model's sequence. Keys and values come from the first `keys` positions of the input: fewer
    than `length` is cross attention with another key length. `segments`: a query attends only to keys of its
    own segment id. `bias`: a learned `ab` (heads, length, keys) is added to the scores. `scale` is the factor
    on the scores, None for `head_dim ** -0.5`. `kv_heads`, where it is set, is a divisor of `heads`: that
    many heads of keys and values are shared by groups of query heads.
    """

    NEEDS_SEQUENCE: ClassVar[bool] = True
    ATTENTION_QUERIES: ClassVar[tuple[str, ...]] = ("q.weight",)
    TENSOR_PARALLEL: ClassVar[Literal["heads"]] = "heads"
    LEAST_SEQUENCE: ClassVar[int] = BLOCK
    PLAIN_WEIGHT: ClassVar[str] = "q.weight"

    width: int
    heads: int
    head_dim: int
    length: int
    keys: int
    causal: bool = False
    segments: bool = False
    bias: bool = False
    scale: float | None = None
    kv_heads: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def key_heads(self) -> int:
        """How many heads keys and values have."""
        return self.heads if self.kv_heads is msgspec.UNSET else self.kv_heads

    def shapes(self) -> Parameters:
        """Four projections without a bias, and the bias of the scores."""
        inner, shared = self.heads * self.head_dim, (self.key_heads * self.head_dim, self.width)
        own = {
            "q.weight": (inner, self.width),
            "k.weight": shared,
            "v.weight": shared,
            "o.weight": (self.width, inner),
        }
        return own | ({"ab": (self.heads, self.length, self.keys)} if self.bias else {})

    @property
    def reads_segments(self) -> bool:
        """Whether queries attend within their segment."""
        return self.segments

    def contradiction(self) -> str:
        """Groups of heads are equally large, keys are positions of the input, and the scale is moderate."""
        if self.heads % self.key_heads:
            return f"heads {self.heads}, kv_heads {self.kv_heads}; the second must divide the first"
        if self.keys > self.length:
            return f"keys {self.keys}; allowed: 1 to its length {self.length}"
        if self.scale is not None and not 0.0 < self.scale <= MOST_FACTOR:
            return f"scale {self.scale}; allowed: above 0, to {MOST_FACTOR}"
        return ""

    def misplaced(self, path: str, sequence: int, first: Layer) -> str:
        """Its length is the model's sequence."""
        if reason := super().misplaced(path, sequence, first):
            return reason
        return (
            "" if self.length == sequence else f"has length {self.length}; the model's sequence is {sequence}"
        )

    @property
    def complexity(self) -> int:
        """More than attention from primitive operators."""
        return 5

    def removable(self) -> tuple[Removable, ...]:
        """Masks, the bias, the scale, fewer keys, and groups of heads."""
        fewer = f"has {self.keys} keys for {self.length} positions"
        parts: tuple[tuple[bool, Removable], ...] = (
            (self.causal, ("is causal", {"causal": False})),
            (self.segments, ("reads segments", {"segments": False})),
            (self.bias, ("has a bias", {"bias": False})),
            (self.scale is not None, (f"scales by {self.scale}", {"scale": None})),
            (self.keys != self.length, (fewer, {"keys": self.length})),
            (self.key_heads != self.heads, ("has grouped heads", {"kv_heads": msgspec.UNSET})),
        )
        return tuple(part for present, part in parts if present)

    def plainer(self) -> Linear:
        """A projection of the same width."""
        return Linear(inputs=self.width, outputs=self.width, bias=False)

    def smaller_forms(self) -> Iterator[tuple[str, Layer]]:
        """One or two heads."""
        for heads, kv_heads in FEW_HEADS:
            if heads < self.heads and (self.key_heads < self.heads or kv_heads == heads):
                own = msgspec.UNSET if kv_heads == heads else kv_heads
                yield f"has {self.heads} heads", msgspec.structs.replace(self, heads=heads, kv_heads=own)

    def shortened(self, length: int) -> "FlashAttention":
        """With at most as many keys as positions."""
        return msgspec.structs.replace(self, length=length, keys=min(self.keys, length))

    def features(self) -> Iterator[str]:
        """All that the kernels' own arguments depend on."""
        yield f"flash causal {self.causal}"
        yield f"flash segments {self.segments}"
        yield f"flash bias {self.bias}"
        yield f"flash scale {'given' if self.scale else 'usual'}"
        yield f"flash length {self.length}, {'as many' if self.keys == self.length else 'fewer'} keys"
        yield f"flash head_dim {self.head_dim}"

    def no_style(self) -> str:
        """The bias of the scores is a parameter of the attention itself."""
        subject = "the bias of flash attention, which belongs to no Linear layer"
        return f"parallelize_module has no style for {subject}" if self.bias else ""

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class, which has the case's numbers in it."""
        return "FlashAttention()"
