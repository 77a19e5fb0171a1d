"""Losses and distances, by the formulas of torch's documentation."""

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from workers.references.layers import Array
from workers.references.operators import Formula
from workers.references.operators.activations import log_softmax
from workers.references.operators.reductions import vector_norm
from workers.references.operators.special import log1p, log_of_one_and_power, magnitude

Reduction: TypeAlias = Literal["none", "mean", "sum"]


def _reduced(np: Array, losses: Array, reduction: Reduction) -> Array:
    """The mean, the sum, or each."""
    if reduction == "none":
        return losses
    return losses.sum() / (np.float64(losses.size) if reduction == "mean" else 1.0)


def _above_zero(np: Array, x: Array) -> Array:
    """0 below 0. At 0 the derivative is that of `x`, as torch has it in losses."""
    return np.where(x < 0, 0.0, x)


def l1(np: Array, x: Array, target: Array, *, reduction: Reduction = "mean") -> Array:
    """Distances."""
    return _reduced(np, magnitude(np, x - target), reduction)


def mse(np: Array, x: Array, target: Array, *, reduction: Reduction = "mean") -> Array:
    """Squared distances."""
    return _reduced(np, (x - target) ** 2, reduction)


def huber(np: Array, x: Array, target: Array, *, reduction: Reduction = "mean", delta: float = 1.0) -> Array:
    """Half the square of distances below `delta`, and a line above."""
    off = magnitude(np, x - target)
    return _reduced(np, np.where(off < delta, off**2 / 2, delta * (off - delta / 2)), reduction)


def smooth_l1(
    np: Array, x: Array, target: Array, *, reduction: Reduction = "mean", beta: float = 1.0
) -> Array:
    """Huber's over `beta`; for 0 the distance."""
    if not beta:
        return l1(np, x, target, reduction=reduction)
    return huber(np, x, target, reduction=reduction, delta=beta) / beta


def kl_div(
    np: Array,
    x: Array,
    target: Array,
    *,
    reduction: Reduction | Literal["batchmean"] = "mean",
    log_target: bool = False,
) -> Array:
    """`target * (log(target) - x)`, of which a target of 0 gives 0. The derivative there is infinite."""
    if log_target:
        losses = np.exp(target) * (target - x)
    else:
        losses = np.where(target == 0, 0.0, target * np.log(target)) - target * x
    if reduction == "batchmean":
        return losses.sum() / x.shape[0]
    return _reduced(np, losses, reduction)


def poisson_nll(
    np: Array,
    x: Array,
    target: Array,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Array:
    """The negative logarithm of a Poisson distribution, with Stirling's approximation for targets above 1."""
    losses = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    if full:
        above = np.where(target > 1, target, 2.0)
        stirling = above * np.log(above) - above + np.log(2 * math.pi * above) / 2
        losses = losses + np.where(target > 1, stirling, 0.0)
    return _reduced(np, losses, reduction)


def binary_cross_entropy(
    np: Array, x: Array, target: Array, *, weight: Array = 1.0, reduction: Reduction = "mean"
) -> Array:
    """Of probabilities; logarithms are at least -100."""
    yes, no = np.maximum(np.log(x), -100.0), np.maximum(log1p(np, -x), -100.0)
    losses = (target - 1) * no - target * yes
    return _reduced(np, losses * (1.0 if weight is None else weight), reduction)


def with_logits(
    np: Array,
    x: Array,
    target: Array,
    *,
    weight: Array = None,
    pos_weight: Array = None,
    reduction: Reduction = "mean",
) -> Array:
    """The same of logits; `pos_weight` weighs the positive part.

    Of the two logarithms one is the other and the logit, which is taken out where it is large: an infinite
    logit or target is then met once, and gives the limit where there is one.
    """
    positive = target if pos_weight is None else target * pos_weight
    both = 1.0 if pos_weight is None else 1 + (pos_weight - 1) * target
    above = (1 - target) * x + both * log_of_one_and_power(np, -x)
    below = both * log_of_one_and_power(np, x) - positive * x
    losses = np.where(x >= 0, above, below)
    return _reduced(np, losses * (1.0 if weight is None else weight), reduction)


def soft_margin(np: Array, x: Array, target: Array, *, reduction: Reduction = "mean") -> Array:
    """`log(1 + exp(-target * x))`."""
    return _reduced(np, log1p(np, np.exp(-target * x)), reduction)


def multilabel_soft_margin(
    np: Array, x: Array, target: Array, *, weight: Array = None, reduction: Reduction = "mean"
) -> Array:
    """The mean over classes of binary cross-entropies of logits."""
    yes, no = log_of_one_and_power(np, -x), log_of_one_and_power(np, x)
    losses = (target * yes + (1 - target) * no) * (1.0 if weight is None else weight)
    return _reduced(np, losses.mean(-1), reduction)


def hinge_embedding(
    np: Array, x: Array, target: Array, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Array:
    """`x` where the target is 1, and what is missing to the margin where it is -1."""
    near = np.where(target == -1, 0.0, x)
    far = np.where(target == 1, 0.0, _above_zero(np, margin - x))
    return _reduced(np, near + far, reduction)


def margin_ranking(
    np: Array, one: Array, two: Array, target: Array, margin: float = 0.0, *, reduction: Reduction = "mean"
) -> Array:
    """What is missing to the margin in the order that the target wants."""
    return _reduced(np, _above_zero(np, -target * (one - two) + margin), reduction)


def pairwise(
    np: Array, x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Array:
    """The p-norm of the difference, to which `eps` is added."""
    return vector_norm(np, x1 - x2 + eps, p, -1, keepdim)


def triplet_margin(
    np: Array,
    anchor: Array,
    positive: Array,
    negative: Array,
    *,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Array:
    """How much nearer than the margin the negative is, compared with the positive."""
    far = pairwise(np, anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise(np, positive, negative, p, eps))
    near = pairwise(np, anchor, positive, p, eps)
    return _reduced(np, _above_zero(np, margin + near - far), reduction)


def cosine_similarity(np: Array, x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """The product of two vectors over that of their norms, each of which is at least `eps`."""
    one, two = np.broadcast_arrays(x1, x2)
    if not one.ndim:
        return one * two / np.maximum(np.abs(one), eps) / np.maximum(np.abs(two), eps)
    lengths = [np.maximum(np.sqrt((each**2).sum(dim, keepdims=True)), eps) for each in (one, two)]
    return (one / lengths[0] * (two / lengths[1])).sum(dim)


def cross_entropy(
    np: Array,
    x: Array,
    target: Array,
    *,
    weight: Array = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Array:
    """Of classes, or of probabilities; a share of the target is spread over all classes."""
    dim = 0 if x.ndim == 1 else 1
    scores = log_softmax(np, x, dim)
    if target.shape != x.shape:
        return _of_classes(np, scores, target, weight, ignore_index, label_smoothing, reduction)
    weights = 1.0 if weight is None else weight.reshape(-1, *(1,) * (x.ndim - 1 - dim))
    smooth = target * (1 - label_smoothing) + label_smoothing / x.shape[dim]
    losses = -(smooth * scores * weights).sum(dim)
    return losses.sum() / np.float64(losses.size) if reduction == "mean" else _reduced(np, losses, reduction)


def _of_classes(
    np: Array,
    scores: Array,
    labels: Array,
    weight: Array,
    ignored: int,
    smoothing: float,
    reduction: Reduction,
) -> Array:
    """The negative scores at labels; their mean is weighted as they are."""
    dim = 0 if scores.ndim == 1 else 1
    labels = labels.astype("int64")
    counts = labels != ignored
    classes = np.expand_dims(np.where(counts, labels, 0), dim)
    weights = np.ones(scores.shape[dim]) if weight is None else weight
    own = np.where(counts, weights[np.squeeze(classes, dim)], 0.0)
    losses = np.where(counts, -np.squeeze(np.take_along_axis(scores, classes, dim), dim) * own, 0.0)
    if smoothing:
        shaped = weights.reshape(-1, *(1,) * (scores.ndim - 1 - dim))
        spread = -np.where(counts, (scores * shaped).sum(dim), 0.0) / scores.shape[dim]
        losses = (1 - smoothing) * losses + smoothing * spread
    if reduction == "mean":
        return losses.sum() / own.sum()
    return _reduced(np, losses, reduction)


def nll(
    np: Array,
    x: Array,
    target: Array,
    *,
    weight: Array = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Array:
    """The negative scores of the targets' classes."""
    return _of_classes(np, x, target, weight, ignore_index, 0.0, reduction)


def cosine_embedding(
    np: Array, one: Array, two: Array, target: Array, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Array:
    """One less the cosine where the target is 1, and how far it is above the margin where that is -1.

    1e-12 is added to the squares of norms.
    """
    squares = [(each**2).sum(-1) + 1e-12 for each in (one, two)]
    cosine = (one * two).sum(-1) / np.sqrt(squares[0] * squares[1])
    far = _above_zero(np, cosine - margin)
    losses = np.where(target == 1, 1 - cosine, 0.0) + np.where(target == -1, far, 0.0)
    return _reduced(np, losses, reduction)


FORMULAS: Mapping[str, Formula] = {
    "cosine_similarity": cosine_similarity,
    "nn.functional.binary_cross_entropy": binary_cross_entropy,
    "nn.functional.binary_cross_entropy_with_logits": with_logits,
    "nn.functional.cosine_embedding_loss": cosine_embedding,
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.hinge_embedding_loss": hinge_embedding,
    "nn.functional.huber_loss": huber,
    "nn.functional.kl_div": kl_div,
    "nn.functional.l1_loss": l1,
    "nn.functional.margin_ranking_loss": margin_ranking,
    "nn.functional.mse_loss": mse,
    "nn.functional.multilabel_soft_margin_loss": multilabel_soft_margin,
    "nn.functional.nll_loss": nll,
    "nn.functional.poisson_nll_loss": poisson_nll,
    "nn.functional.smooth_l1_loss": smooth_l1,
    "nn.functional.soft_margin_loss": soft_margin,
    "nn.functional.triplet_margin_loss": triplet_margin,
    "pairwise_distance": pairwise,
}
