"""Dropout in the user's module with masks from the host, so that all sides drop the same elements.

`torch.nn.functional.dropout`, which `nn.Dropout` calls, and attention with dropout are replaced before the
user's source is imported. While the module runs, every call that drops elements has a mask of its own, drawn
from the case's seed, the step and the number of the call in the step. A call that drops none is one of what
the framework has in that place. Any other random operator stays as it is, and a module that draws by it is
refused (`workers.own.trial`).
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from difftest.cases.case import DType
from difftest.cases.draws import round_to
from difftest.ground.errors import UsageError

Feed: TypeAlias = Callable[[Tensor], Tensor]
"""Turns a host tensor of all rows into what the module's tensors are: a rank's rows, or a sharded tensor."""

_here = threading.local()
"""The masks of the module that this thread runs: replicas are threads of one process."""


class Masks:
    """The masks of a run: of tensors with `rows` rows over all ranks, rounded to `dtype`, the case's."""

    def __init__(self, seed: int, rows: int, dtype: DType, feed: Feed) -> None:
        self._seed, self._rows, self._dtype, self._feed = seed, rows, dtype, feed
        self._step, self._calls = -1, 0
        self._part: slice | None = None

    def begun_again(self) -> "Masks":
        """The same masks for a forward pass beside those of the steps, which does not move them."""
        return Masks(self._seed, self._rows, self._dtype, self._feed)

    @contextmanager
    def of_step(self, step: int, part: slice | None = None) -> Iterator[None]:
        """A context for one forward pass of `step`; of a `part` of the rows that is a batch of its own."""
        if step != self._step or part:
            self._step, self._calls = step, 0
        self._part = part
        _here.masks = self
        try:
            yield
        finally:
            _here.masks = None

    def of(self, tensor: Tensor, p: float) -> Tensor:
        """The mask of the next call, for what the module drops elements of; `UsageError` without rows.

        numpy makes it: in the oracle, operators of torch round at random and take no type but float64.
        """
        text = f"{self._seed} dropout {self._step} {self._calls}"
        self._calls += 1
        random = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))
        kept = random.random((self._rows, *tensor.shape[1:])) >= p
        kept = kept[self._part] if self._part else kept
        mask = self._feed(torch.from_numpy(round_to(self._dtype, kept / (1.0 - p))).to(tensor.dtype))
        if mask.shape != tensor.shape:
            msg = f"dropout of a tensor {tuple(tensor.shape)}, whose first dim is not the batch's rows"
            raise UsageError(msg)
        return mask


@cache
def install() -> None:
    """Replaces the functions in this process; outside of `Masks.of_step` they do what they did.

    What they did is what they are when this is called: a framework may have put its own in their place.
    """
    functional.dropout = _with_masks(functional.dropout)
    functional.scaled_dot_product_attention = _attending(functional.scaled_dot_product_attention)


def _with_masks(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The framework's `own` dropout where no element is dropped, and else one with masks of the host."""

    def dropout(
        input: Tensor,  # noqa: A002  torch's own name
        p: float = 0.5,
        training: bool = True,  # noqa: FBT001, FBT002
        inplace: bool = False,  # noqa: FBT001, FBT002
    ) -> Tensor:
        masks: Masks | None = getattr(_here, "masks", None)
        if masks is None or not training or not 0.0 < p < 1.0:
            return own(input, p, training, inplace)
        mask = masks.of(input, p)
        return input.mul_(mask) if inplace else input * mask

    return dropout


def _attending(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The framework's `own` attention where no element is dropped, and else one with masks of the host."""

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        *options: Any,  # noqa: ANN401  as torch's
        **named: Any,  # noqa: ANN401
    ) -> Tensor:
        masks: Masks | None = getattr(_here, "masks", None)
        if masks is None or not dropout_p:
            return own(query, key, value, attn_mask, dropout_p, *options, **named)
        arguments = dict(zip(("is_causal", "scale", "enable_gqa"), options, strict=False)) | named
        weights = _weights(query, key, attn_mask, **arguments)
        if arguments.get("enable_gqa"):
            value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
        return weights * masks.of(weights, dropout_p) @ value

    return attention


def _weights(  # noqa: PLR0913  as torch's function
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention's weights before dropout, as torch's documentation defines them."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return torch.softmax(scores, dim=-1)
