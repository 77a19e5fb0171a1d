"""A mixture of experts with top-k routing (Shazeer et al., 2017), and with slots (Fedus et al., 2021)."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected, sigmoid, softmax


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """The sum of the chosen experts' results, weighted by their shares of the router's scores.

    With `scatter`, an expert takes `capacity` rows, the first that choose it, and other results count as 0.
    """
    np, experts, top = context.numpy, arguments["experts"], arguments["top"]
    shares = softmax(projected(inputs, context.own("router.weight")), context)
    chosen = np.argsort(-shares, axis=-1)[:, :top]
    weights = np.take_along_axis(shares, chosen, axis=-1)
    weights = weights / weights.sum(-1, keepdims=True)
    routed = chosen[..., None] == np.arange(experts)
    if arguments["dispatch"] == "scatter":
        flat = routed.reshape(-1, experts)
        before = (np.cumsum(flat, axis=0) - flat).reshape(routed.shape)
        routed = routed & (before < arguments["capacity"])
    hidden = np.einsum("rw,ewh->reh", inputs, context.own("rising"))
    results = np.einsum("reh,ehw->rew", hidden * sigmoid(hidden, context), context.own("falling"))
    return np.einsum("rte,rt,rew->rw", routed * 1.0, weights, results)
