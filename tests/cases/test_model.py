"""Models: parameter names and shapes without torch, and the models that are invalid."""

import pytest

from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.model import Model
from difftest.cases.numbers import fan_in

ATTENTION = Attention(width=8, heads=4, kv_heads=2)
BLOCK = Model(
    layers=(
        Embedding(vocabulary=16, width=8),
        Residual(layers=(LayerNorm(width=8), ATTENTION)),
        Conv(inputs=8, outputs=8),
        RMSNorm(width=8),
        Linear(inputs=8, outputs=16, bias=False, tied=True),
    ),
    sequence=4,
)


def test_parameters_have_torch_names_shapes_and_order() -> None:
    assert list(BLOCK.parameters().items()) == [
        ("0.weight", (16, 8)),
        ("1.0.weight", (8,)),
        ("1.0.bias", (8,)),
        ("1.1.q.weight", (8, 8)),
        ("1.1.k.weight", (4, 8)),
        ("1.1.v.weight", (4, 8)),
        ("1.1.o.weight", (8, 8)),
        ("2.weight", (8, 8, 3)),
        ("2.bias", (8,)),
        ("3.weight", (8,)),
    ]


def test_a_model_has_the_sizes_of_its_inputs_and_outputs() -> None:
    assert (BLOCK.tokens, BLOCK.inputs, BLOCK.outputs, BLOCK.segments) == (16, 8, 16, False)
    floats = Model(layers=(Activation(function="relu"), Linear(inputs=3, outputs=5)))
    assert (floats.tokens, floats.inputs, floats.outputs) == (0, 3, 5)


def test_a_model_has_segments_if_a_layer_in_a_residual_block_has() -> None:
    packed = Attention(width=8, heads=4, kv_heads=4, segments=True)
    assert Model(layers=(Residual(layers=(packed,)),), sequence=4).segments


def test_walk_yields_a_block_before_its_layers() -> None:
    assert [path for path, _ in walk(BLOCK.layers)] == ["0", "1", "1.0", "1.1", "2", "3", "4"]


def test_layers_that_contain_layers_have_no_parameters_of_their_own() -> None:
    assert Residual(layers=(Linear(inputs=2, outputs=2),)).shapes() == {}
    assert Activation(function="gelu").shapes() == {}


def test_fan_in_counts_the_inputs_of_one_output() -> None:
    assert (fan_in((5, 3)), fan_in((5, 3, 7))) == (3, 21)


@pytest.mark.parametrize(
    ("layers", "sequence", "message"),
    [
        ((), 0, "model has 0 layers; allowed: 1 to 64"),
        ((Activation(function="relu"),) * 65, 0, "model has 65 layers; allowed: 1 to 64"),
        ((Activation(function="relu"),), 0, "model has no parameter; at least one is needed"),
        ((Linear(inputs=0, outputs=1),), 0, "layer 0 has inputs 0; allowed: 1 to 4096"),
        ((Linear(inputs=1, outputs=4097),), 0, "layer 0 has outputs 4097; allowed: 1 to 4096"),
        ((Linear(inputs=1, outputs=1),), -1, "model has sequence -1; allowed: 0 to 4096"),
        ((Linear(inputs=1, outputs=1),), 10**9, "model has sequence 1000000000; allowed: 0 to 4096"),
        (
            (Linear(inputs=2, outputs=3), Linear(inputs=2, outputs=1)),
            0,
            "layer 1 takes width 2; it is given 3",
        ),
        (
            (Linear(inputs=2, outputs=2), Residual(layers=(LayerNorm(width=3),))),
            0,
            "layer 1 takes width 3; it is given 2",
        ),
        (
            (Residual(layers=(Linear(inputs=2, outputs=3),)),),
            0,
            "residual layer 0 ends at width 3; it must end at 2",
        ),
        (
            (Linear(inputs=2, outputs=2), Embedding(vocabulary=2, width=2)),
            2,
            "layer 1 is an embedding; only layer 0 may be one",
        ),
        ((ATTENTION,), 0, "layer 0 needs a sequence; the model's sequence is 0"),
        (
            (Conv(inputs=2, outputs=2, kernel=2),),
            4,
            "layer 0 has kernel 2; it must be odd to keep the length",
        ),
        (
            (Attention(width=8, heads=3, kv_heads=1),),
            4,
            "layer 0 has width 8, heads 3, kv_heads 1; each must divide the one before",
        ),
        (
            (Linear(inputs=2, outputs=2, tied=True),),
            0,
            "layer 0 is tied to layer 0, which is no embedding of (2, 2)",
        ),
    ],
)
def test_an_invalid_model_raises_with_the_layer_and_the_allowed_values(
    layers: tuple[Layer, ...], sequence: int, message: str
) -> None:
    with pytest.raises(ValueError, match=r"layer|model") as caught:
        Model(layers=layers, sequence=sequence)
    assert str(caught.value) == message
