"""Models of diffusers by class (`diffusers:UNet2DModel`), at toy size, with their mean squared error."""

import importlib
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from difftest.cases.recipe import Feed, Recipe
from workers.own import recipes
from workers.own.named import unknown

PACKAGE = "diffusers"
EXAMPLE = "UNet2DModel"

KINDS = re.compile(r"^(?=[A-Z]).*(Model|Autoencoder|VQ|Transformer|UNet)")
"""The names of models among those that diffusers exports."""

WIDTH, TOKENS, SIDE, STEPS = 32, 8, 16, 1000

SMALL: Mapping[str, Any] = {
    "sample_size": SIDE,
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "num_layers": 2,
    "num_single_layers": 1,
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "norm_num_groups": 8,
    "cross_attention_dim": WIDTH,
    "joint_attention_dim": WIDTH,
    "caption_projection_dim": 16,
    "caption_channels": WIDTH,
    "pooled_projection_dim": WIDTH,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 4,
    "dropout": 0.0,
}
"""The arguments of constructors, by their names."""

BLOCKS: tuple[Mapping[str, Any], ...] = (
    {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    },
    {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    },
    {
        "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
        "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
    },
    {},
)


def names() -> Iterable[str]:
    """The classes of models."""
    recipes.imported(PACKAGE)
    models = importlib.import_module("diffusers.models")
    return sorted(name for name in dir(models) if KINDS.search(name))


def candidates(name: str) -> Iterator[Recipe]:
    """The class at toy size, fed by the names of its forward's arguments."""
    package = recipes.imported(PACKAGE)
    if name not in names():
        raise unknown(__name__, name, names())
    module = getattr(package, name)
    takes, fed = inspect.signature(module.__init__).parameters, inspect.signature(module.forward).parameters
    lefts = ((), ("patch_size",), ("num_attention_heads",), tuple(SMALL))
    for blocks, left, every in itertools.product(BLOCKS, lefts, (False, True)):
        chosen = {key: one for key, one in SMALL.items() if key not in left} | dict(blocks)
        arguments: dict[str, Any] = {
            key: list(one) if isinstance(one, tuple) else one for key, one in chosen.items() if key in takes
        }
        channels = arguments.get("in_channels", 3)
        inputs = tuple(
            feed for key, one in fed.items() if (feed := _feed(key, one, channels, every=every)) is not None
        )
        yield Recipe(
            package="diffusers",
            call=name,
            arguments=arguments,
            inputs=inputs,
            targets=Feed(name="targets"),
            loss="mse",
            calm=True,
        )


def _feed(name: str, parameter: inspect.Parameter, channels: int, *, every: bool) -> Feed | None:
    """What an argument of a forward is fed; None for one that can be left out, unless `every` one is fed."""
    feeds = {
        "sample": Feed(name=name, row=(channels, SIDE, SIDE)),
        "hidden_states": Feed(name=name, row=(channels, SIDE, SIDE)),
        "timestep": Feed(name=name, high=STEPS),
        "encoder_hidden_states": Feed(name=name, row=(TOKENS, WIDTH)),
        "pooled_projections": Feed(name=name, row=(WIDTH,)),
        "class_labels": Feed(name=name, high=STEPS),
    }
    needed = every or parameter.default is inspect.Parameter.empty
    return feeds.get(name) if needed else None
