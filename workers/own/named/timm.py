"""Models of timm by name (`timm:vit_tiny_patch16_224`), with small images and few layers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from difftest.cases.recipe import Feed, Recipe
from workers.own import recipes
from workers.own.named import unknown

PACKAGE = "timm"
EXAMPLE = "vit_tiny_patch16_224"

CLASSES = 10
SIZES = (32, 64, 96, 128, 224)
"""The sides of images to try."""

SMALLER: tuple[Mapping[str, Any], ...] = (
    {"depth": 2, "embed_dim": 48, "num_heads": 3},
    {"depth": 2},
    {"layers": (1, 1, 1, 1)},
    {"depths": (1, 1, 1, 1), "dims": (16, 24, 32, 48)},
    {"depths": (1, 1, 1, 1)},
    {"num_blocks": 2},
)
"""Arguments that a model's class may take, the smallest first."""

CUT = {"blocks": 2}
"""What is shortened in a model that takes no such arguments."""


def names() -> Iterable[str]:
    """All that timm has."""
    return sorted(recipes.imported(PACKAGE).list_models())


def candidates(name: str) -> Iterator[Recipe]:
    """The model with few layers and small images; where it takes no such arguments, without them."""
    package = recipes.imported(PACKAGE)
    if not package.is_model(name):
        raise unknown(__name__, name, names())
    for smaller, cut in (*((one, {}) for one in SMALLER), ({}, CUT), ({}, {})):
        for size in SIZES:
            for sized in ({"img_size": size}, {}):
                yield Recipe(
                    package="timm",
                    call=name,
                    arguments={"num_classes": CLASSES, **smaller, **sized},
                    inputs=(Feed(name="0", row=(3, size, size)),),
                    targets=Feed(name="targets", high=CLASSES),
                    loss="cross_entropy",
                    calm=True,
                    cut=cut,
                )
