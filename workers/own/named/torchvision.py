"""Models of torchvision by name (`torchvision:resnet18`): those that map images to numbers."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from difftest.cases.recipe import Feed, Recipe
from workers.own import recipes
from workers.own.named import unknown

PACKAGE = "torchvision"
EXAMPLE = "resnet18"

CLASSES = 10
SHAPES = ((3, 32, 32), (3, 64, 64), (3, 96, 96), (3, 224, 224), (3, 4, 64, 64), (3, 16, 112, 112))
"""Of images, and of videos."""

ARGUMENTS: tuple[Mapping[str, Any], ...] = (
    {"image_size": 32},
    {},
    {"aux_logits": False, "init_weights": True},
    {"weights_backbone": None},
)
"""What some entries must be given: else they would need large images, download, or draw weights for long."""

SMALLER: tuple[Mapping[str, Any], ...] = (
    {"cut": {"layer1": 1, "layer2": 1, "layer3": 1, "layer4": 1}},
    {},
    {"head": "classifier"},
    {"cut": {"encoder.layers": 2}},
    {"cut": {"features.5": 1, "features.7": 1}},
)
"""What is done to an entry: a block for each stage, or of a larger one a small classifier or few layers."""


def names() -> Iterable[str]:
    """Those that take a batch of images or videos; detection takes lists."""
    return sorted(one for one in recipes.imported(PACKAGE).models.list_models() if "rcnn" not in one)


def candidates(name: str) -> Iterator[Recipe]:
    """The model with the smallest images on which it runs."""
    package = recipes.imported(PACKAGE)
    if name not in package.models.list_models():
        raise unknown(__name__, name, names())
    losses: tuple[tuple[Feed, Literal["cross_entropy", "mse"]], ...] = (
        (Feed(name="targets", high=CLASSES), "cross_entropy"),
        (Feed(name="targets"), "mse"),
    )
    for smaller, given, shape, (targets, loss) in itertools.product(SMALLER, ARGUMENTS, SHAPES, losses):
        yield Recipe(
            package="torchvision",
            call=name,
            arguments={"num_classes": CLASSES, **given},
            inputs=(Feed(name="0", row=shape),),
            targets=targets,
            loss=loss,
            calm=True,
            **smaller,
        )
