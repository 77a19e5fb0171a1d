"""How a model of an installed package is built and fed, as data: what `--model hf:llama` stands for.

A case keeps it, so that the case is the same wherever that package is. A case may come from elsewhere: what
is called is a class or an entry of a listed package, and the arguments hold no place that could be loaded.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from difftest.cases.schema import NAME, Keyword, Name

NAMED = re.compile(r"(?P<place>hf|timm|torchvision|diffusers):(?P<name>[\w./-]+)")
"""The source of a model by name: `hf:llama`, `timm:vit_tiny_patch16_224`."""

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "DIFFUSERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
"""The environment variables by which the packages ask no hub, and print nothing in every process."""

BUILD = "build"
"""The function that a named source has."""

MOST_ROW = 1 << 20
"""The largest number of elements of an input's row."""

WORD = re.compile(r"[A-Za-z0-9_ ,+*-]{0,200}")
"""A text among arguments, which is no path and no address."""

PLACES = re.compile(r".*(path|file|folder|checkpoint|pretrained|weights|repo|url).*", re.IGNORECASE)
"""The names of arguments by which a package could load something."""

CHANCES = ("p", "drop_prob", "dropout_prob")
"""What modules of dropout, of stochastic depth and of labels call the share that they drop."""

SHARED = {"transformers": ("PreTrainedModel", "GenerationMixin"), "diffusers": ("UNet2DModel",)}
"""What takes most of the time to import of packages that import their parts when they are used."""

Path: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_]\w*(\.\w+)*\Z", max_length=200)]
"""The path of a module in a model."""

Package: TypeAlias = Literal["transformers", "timm", "torchvision", "diffusers"]


class Feed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tensor of the batch: a row's shape, and whole numbers below `high`, or normal floats for None."""

    name: Annotated[str, msgspec.Meta(pattern=rf"^(\d|{NAME})\Z")]
    row: tuple[Annotated[int, msgspec.Meta(ge=1, le=MOST_ROW)], ...] = ()
    high: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROW)] | None = None


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is called with which arguments, and what it is fed.

    `call` is the class or the entry of `package`, and `config` the class that takes the arguments first, if
    there is one. `targets` are those of the loss: what an input of that name is fed. `loss`: the model
    returns it (`own`), or it is computed from the first output.

    What arguments cannot say is done to the model: `calm` sets what its modules draw by (dropout, stochastic
    depth) to 0, `cut` shortens the sequences of modules at these paths, and `head` is the path of a
    classifier in whose place one linear layer is put, as in fine-tuning.
    """

    package: Package
    call: Name
    config: Name | None = None
    arguments: Mapping[Keyword, Any] = {}
    inputs: tuple[Feed, ...]
    targets: Feed
    loss: Literal["own", "mse", "cross_entropy"] = "own"
    calm: bool = False
    cut: Mapping[Path, Annotated[int, msgspec.Meta(ge=1)]] = {}
    head: Path | None = None

    @property
    def imports(self) -> tuple[str, ...]:
        """What a process imports before others are forked from it, as `package:attribute`.

        Of these packages that is what all models import: a model's own file takes less than a tenth of a
        second, and other models of the package find the process there.
        """
        return tuple(f"{self.package}:{name}" for name in SHARED.get(self.package, ("",)))

    def contradiction(self) -> str:
        """What makes it no recipe; empty for nothing."""
        wrong = next((text for text in _texts(self.arguments) if not WORD.fullmatch(text)), None)
        if wrong is not None:
            return f"the argument {wrong[:100]!r}; allowed: up to 200 letters, digits and _ ,+*-"
        if place := next(_places(self.arguments), ""):
            return f"the argument {place} is a text, which could be loaded; allowed: none of that name"
        if not self.inputs:
            return "no inputs; allowed: 1 or more"
        return ""


def _places(value: object) -> Iterator[str]:
    """The names in a JSON value by which something could be loaded, with a text under them."""
    if isinstance(value, Mapping):
        yield from (str(key) for key, one in value.items() if PLACES.fullmatch(str(key)) and _texts(one))
    if isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _places(one)


def _texts(value: object) -> list[str]:
    """All texts in a JSON value, keys too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for one in pair for text in _texts(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]
    return []
