"""The kinds of layers, a file each.

`<kind>.py` has one class, a `Layer` whose tag is the file's name. There is no list to extend.

What a kind computes is in `workers.training.layers.<kind>`, unless it is a module of torch by itself. How it
is drawn is in `generators.layers.<kind>`.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, Union

from difftest.cases.layer import Layer
from difftest.ground import plugins


def walk(layers: tuple[Layer, ...], prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """Every layer with its dotted path, containers before what they hold."""
    for index, layer in enumerate(layers):
        path = f"{prefix}{index}"
        yield path, layer
        if layer.held:
            yield from walk(layer.held, f"{path}.")


def _discovered() -> Mapping[str, type[Layer]]:
    """The class of every kind by the kind's name."""
    kinds: dict[str, type[Layer]] = {}
    for name in plugins.names(__name__):
        module = plugins.load(package=__name__, name=name)
        (kinds[name],) = (
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Layer) and value.__module__ == module.__name__
        )
    return kinds


KINDS = _discovered()
"""The class of every kind by the kind's name."""

if TYPE_CHECKING:
    AnyLayer: TypeAlias = Layer
else:
    AnyLayer = Union[tuple(KINDS.values())]  # noqa: UP007  the members are known at run time only
    """Any kind, as msgspec decodes it by its tag."""
