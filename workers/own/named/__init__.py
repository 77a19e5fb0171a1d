"""Models by name, one file a source: what `--model hf:llama` and its like are built of, and fed.

To add a source, add a file here that satisfies `Source`, and its name to the source of a case
(`difftest.cases.recipe`). A source imports its package inside its functions: it is listed where that is not
installed.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from difftest.cases.recipe import Recipe
from difftest.ground import plugins
from difftest.ground.errors import UsageError


class Source(Protocol):
    """What a file in this folder declares."""

    PACKAGE: str
    """The package that must be installed."""

    EXAMPLE: str
    """A name that it has."""

    def names(self) -> Iterable[str]:
        """The names that can be asked for, sorted."""

    def candidates(self, name: str) -> Iterator[Recipe]:
        """How a model of that name is built and fed: the smallest first, until one of them runs.

        `UsageError` for a name that there is none of.
        """


def load(name: str) -> Source:
    """The source called `name`; `UsageError` when there is none."""
    source: Source = plugins.load(__name__, name)
    return source


def unknown(module: str, name: str, names: Iterable[str]) -> UsageError:
    """The error for a name that a source lacks, with the nearest that it has; `module` is the source's."""
    source, near = module.rpartition(".")[2], plugins.like(name, names)
    meant = f"did you mean {source}:{near}? " if near else ""
    return UsageError(f"{source} has no model {name!r}; {meant}`difftest models {source}` lists all")
