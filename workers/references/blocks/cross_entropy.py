"""Cross-entropy with label smoothing (Szegedy et al., 2016), class weights and ignored targets.

As torch documents them: the mean divides by the weights of the targets that count.
"""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, log_softmax


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """(batch, sequence) ids to (batch, sequence, 1) losses, of targets that follow from the ids."""
    np, classes, smoothing = context.numpy, arguments["classes"], arguments["smoothing"]
    logits, targets = context.own("logits.weight")[inputs], (inputs * 3 + 1) % classes
    logarithms = log_softmax(logits, context)
    weights = np.arange(1, classes + 1) / 4.0 if arguments["weighted"] else np.ones(classes)
    wanted = (np.arange(classes) == targets[..., None]) * (1 - smoothing) + smoothing / classes
    counts = targets != 0 if arguments["ignored"] else np.ones(targets.shape, bool)
    losses = np.where(counts, -(logarithms * weights * wanted).sum(-1), 0.0)
    if arguments["reduction"] == "mean":
        losses = losses.sum() / np.where(counts, weights[targets], 0.0).sum()
    elif arguments["reduction"] == "sum":
        losses = losses.sum()
    return np.broadcast_to(losses, inputs.shape)[..., None]
