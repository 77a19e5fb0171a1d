"""LSTM (Hochreiter and Schmidhuber, 1997, with a forget gate) and GRU (Cho et al., 2014), as torch documents.

torch's GRU applies the reset gate behind the hidden matrix.
"""

from collections.abc import Mapping
from typing import Any

from workers.references.layers import Array, Context, projected, sigmoid
from workers.references.operators.special import tanh


def computed(arguments: Mapping[str, Any], inputs: Array, context: Context) -> Array:
    """The outputs of the last layer, those of both directions side by side."""
    np, values = context.numpy, inputs
    directions = ("", "_reverse") if arguments["both"] else ("",)
    for layer in range(arguments["layers"]):
        values = np.concatenate(
            [_along(arguments, values, f"_l{layer}{direction}", context) for direction in directions], axis=-1
        )
    return values


def _along(arguments: Mapping[str, Any], inputs: Array, end: str, context: Context) -> Array:
    """The outputs of one layer in one direction."""
    np, backwards = context.numpy, end.endswith("_reverse")
    hidden = np.zeros((inputs.shape[0], arguments["hidden"]))
    state, results = (hidden, hidden), []
    cell = _lstm if arguments["cell"] == "LSTM" else _gru
    has_bias = arguments["bias"]

    def through(values: Array, name: str) -> Array:
        bias = context.own(f"cells.bias_{name}{end}") if has_bias else None
        return projected(values, context.own(f"cells.weight_{name}{end}"), bias)

    positions = range(inputs.shape[1])
    for position in reversed(positions) if backwards else positions:
        state = cell(through(inputs[:, position], "ih"), through(state[0], "hh"), state, context)
        results.append(state[0])
    return np.stack(results[::-1] if backwards else results, axis=1)


def _lstm(own: Array, recurrent: Array, state: tuple[Array, Array], context: Context) -> tuple[Array, Array]:
    """Gates in the order input, forget, cell, output."""
    np = context.numpy
    enters, forgets, cell, leaves = np.split(own + recurrent, 4, axis=-1)
    kept = sigmoid(forgets, context) * state[1] + sigmoid(enters, context) * tanh(np, cell)
    return sigmoid(leaves, context) * tanh(np, kept), kept


def _gru(own: Array, recurrent: Array, state: tuple[Array, Array], context: Context) -> tuple[Array, Array]:
    """Gates in the order reset, update, new."""
    np = context.numpy
    (resets, updates, new), (also_resets, also_updates, also_new) = (
        np.split(each, 3, axis=-1) for each in (own, recurrent)
    )
    kept = sigmoid(updates + also_updates, context)
    candidate = tanh(np, new + sigmoid(resets + also_resets, context) * also_new)
    hidden = (1 - kept) * candidate + kept * state[0]
    return hidden, hidden
