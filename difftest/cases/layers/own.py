"""A module of the user's: where its source is, and what the core must know of it.

A model has it as its only layer. `workers.own` describes a module once, in a process of its own, and the
case keeps the description, so that nothing but a worker needs torch or runs the user's code.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import ClassVar, Literal

from difftest.cases.layer import Layer, Parameters, Removable
from difftest.cases.recipe import BUILD, NAMED, Recipe

SOURCE = re.compile(r"(?P<place>[\w./-]+):(?P<name>[A-Za-z_]\w*)")
"""`package.module:function` or `folder/file.py:function`."""

MOST_TENSORS = 4096


class Own(Layer, frozen=True, kw_only=True, tag="own", omit_defaults=True):
    """What `source` makes: `package.module:build` or `model.py:build`, from the working directory.

    A model of an installed package is called by name (`hf:llama`). It has no files; its `recipe` says what is
    built and fed.

    `files` has the SHA-256 of every file of the working directory that the source needs, by its path in
    there. Other files are refused, since they would be another case (`difftest.ground.sources`).

    `parameters` are the shapes by the module's own names, `tied` the further names of shared parameters, each
    with the name under which its parameter is listed. `inputs` are the names of what the batch feeds: numbers
    of positional arguments, or keywords. `modules` are the classes of the modules inside by their paths, and
    `lines` where the forward of a class begins that is not torch's (`model.py:12`).

    `rowwise`: rows do not influence each other, and the loss of some rows is the mean of theirs. Otherwise
    (in batch normalization) ranks that have rows of their own compute something else than one device.
    `mean_over`: whether the user's loss is a mean over the rows, or over those `targets` that are not
    ignored, of which ranks have unequal numbers.
    `reads` is how often a step of its code needs values on the host, by aten's operator: for a number, or for
    the size of a result. `mixes_tensors`: it mixes tensors that it makes itself with those that it is given.
    `loops` are torch's functions of control flow that it calls, such as `scan`.
    `without` are the paths of modules that are replaced by the identity.
    """

    MAKES_TENSORS: ClassVar[bool] = True

    source: str
    files: Mapping[str, str]
    parameters: Parameters
    tied: Mapping[str, str] = {}
    inputs: tuple[str, ...] = ("0",)
    modules: Mapping[str, str] = {}
    lines: Mapping[str, str] = {}
    rowwise: bool = True
    mean_over: Literal["rows", "targets"] = "rows"
    reads: Mapping[str, int] = {}
    mixes_tensors: bool = True
    loops: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    recipe: Recipe | None = None

    @property
    def built(self) -> str:
        """The class that `build` makes an object of."""
        return self.modules.get("", "own model")

    @property
    def title(self) -> str:
        """The class, and where it comes from."""
        return f"{self.built} ({self.source})"

    @property
    def place(self) -> str:
        """The module, or the file, that has the function."""
        return self.source.partition(":")[0]

    @property
    def function(self) -> str:
        """The function that builds the model."""
        return BUILD if self.recipe else self.source.partition(":")[2]

    def shapes(self) -> Parameters:
        """Its parameters."""
        return self.parameters

    def borrows(self) -> Mapping[str, str]:
        """The tied names. The layer is a model's only one, so that full names begin with its index."""
        return {name: f"0.{owner}" for name, owner in self.tied.items()}

    @property
    def mixes_rows(self) -> bool:
        """As `workers.own` found out by trying."""
        return not self.rowwise

    def sizes(self) -> Mapping[str, int]:
        """None."""
        return {}

    def contradiction(self) -> str:
        """The source and its files are inside of the working directory, and what is tied exists."""
        if self.recipe:
            if not NAMED.fullmatch(self.source) or self.files:
                return f"the source {self.source!r} with a recipe; allowed: a name such as hf:llama, no files"
            return self.recipe.contradiction() or self._lacks()
        if not SOURCE.fullmatch(self.source):
            return f"the source {self.source!r}; allowed: package.module:function or file.py:function"
        for file in (*self.files, *([self.place] if self.place.endswith(".py") else [])):
            if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
                return f"the file {file!r}; allowed: paths inside of the working directory"
        if not self.files:
            return "no digests; allowed: those of 1 file or more"
        return self._lacks()

    def _lacks(self) -> str:
        """What is wrong about the parameters."""
        if len(self.parameters) > MOST_TENSORS:
            return f"{len(self.parameters)} parameters; allowed: {MOST_TENSORS}"
        unknown = sorted({*self.tied.values()} - {*self.parameters})
        return f"no parameter {unknown[0]} to tie to" if unknown else ""

    def rounds(self) -> str:
        """Nothing is known of its rounding here."""
        return "a module of the user's may round"

    def removable(self) -> tuple[Removable, ...]:
        """Every module inside, large ones first."""
        paths = sorted(filter(None, self.modules), key=lambda path: (path.count("."), path))
        return tuple((f"has {path} ({self.modules[path]})", self._lacking(path)) for path in paths)

    def _lacking(self, removed: str) -> Mapping[str, object]:
        """The fields that differ where the module at `removed` is the identity."""

        def stays(name: str) -> bool:
            return name != removed and not name.startswith(f"{removed}.")

        tied = {name: owner for name, owner in self.tied.items() if stays(name)}
        heirs = {owner: name for name, owner in reversed(tied.items()) if not stays(owner)}
        parameters = {
            heirs.get(name, name): shape
            for name, shape in self.parameters.items()
            if stays(name) or name in heirs
        }
        return {
            "without": (*self.without, removed),
            "parameters": parameters,
            "tied": {n: heirs.get(owner, owner) for n, owner in tied.items() if n not in heirs.values()},
            "modules": {path: title for path, title in self.modules.items() if stays(path)},
        }

    @property
    def extent(self) -> int:
        """The number of modules that are left."""
        return len(self.modules)

    def features(self) -> Iterator[str]:
        """The classes inside, what its loss is a mean over if not the rows, and torch's loops."""
        yield from sorted({*self.modules.values()})
        if self.mean_over == "targets":
            yield "own loss is a mean over targets"
        yield from (f"own model calls {name}" for name in self.loops)

    def no_style(self) -> str:
        """The styles depend on what the modules compute."""
        return "no plan of parallelize_module follows from the placements of a module of the user's"

    def spelled(self, path: str, *, moves: bool) -> str:
        """A call of the user's function, which the script imports."""
        return f"{self.function}(SEED)"
