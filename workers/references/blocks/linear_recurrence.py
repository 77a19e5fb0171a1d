"""A gated linear recurrence, position by position."""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected, sigmoid


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """A state decays by the sigmoid of a projection, and takes in the input; one after another."""
    np = context.numpy
    order = range(inputs.shape[1])[:: -1 if arguments["reverse"] else 1]
    for layer in range(arguments["layers"]):
        own = (context.own(f"gates.{layer}.{name}") for name in ("weight", "bias"))
        decays = sigmoid(projected(inputs, *own), context)
        state, states = np.zeros_like(inputs[:, 0]), {}
        for position in order:
            states[position] = state = decays[:, position] * state + inputs[:, position]
        inputs = np.stack([states[position] for position in sorted(states)], axis=1)
    return inputs
