"""A module of the user's: where its source is, and what the core must know of it.

A model has it as its only layer. `workers.own` describes a module once, in a process of its own, and the
case keeps the description, so that nothing but a worker needs torch or runs the user's code.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from difftest.cases.layer import Layer, Parameters, Removable
from difftest.cases.layout import Replicate, Shard
from difftest.cases.recipe import BUILD, NAMED, Recipe
from difftest.cases.schema import TensorName

SOURCE = re.compile(r"(?P<place>[\w./-]+):(?P<name>[A-Za-z_]\w*)")
"""`package.module:function` or `folder/file.py:function`."""

MOST_TENSORS = 4096

LISTS = ("ModuleList", "Sequential")
"""The classes of torch whose members have numbers for names."""

OverRows: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=63)] | Literal["same", "mean", "all"]
"""What a tensor is over the rows of a batch.

The dim in which it has them. Of others some rows give the `same` as all, or the `mean` over parts of the
batch is that of the whole, or it depends on `all` rows in some other way.
"""


class Buffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A buffer that is compared after each step. `dtype` is empty for that of the case.

    `of_all_rows`: it depends on the rows of the batch, so that ranks with rows of their own have others.
    """

    shape: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    dtype: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]{0,20}\Z")] = ""
    of_all_rows: bool = False


class Own(Layer, frozen=True, kw_only=True, tag="own", omit_defaults=True):
    """What `source` makes: `package.module:build` or `model.py:build`, from the working directory.

    A model of an installed package is called by name (`hf:llama`). It has no files; its `recipe` says what is
    built and fed.

    `files` has the SHA-256 of every file of the working directory that the source needs, by its path in
    there. Other files are refused, since they would be another case (`difftest.ground.sources`).

    `parameters` are the shapes by the module's own names, `tied` the further names of shared parameters, each
    with the name under which its parameter is listed. `inputs` are the names of what the batch feeds: numbers
    of positional arguments, or keywords. `takes_dict`: all of them are one argument, a dict. `fed_dict`: the
    user's function gives them as a dict alone, with the targets as `labels`. `modules` are the classes of the
    modules inside by their paths, and `lines` where the forward of a class begins that is not torch's
    (`model.py:12`).

    `rowwise`: rows do not influence each other, and the loss of some rows is the mean of theirs. Otherwise
    (in batch normalization) ranks that have rows of their own compute something else than one device.
    `by_rank`: every rank's rows are a batch of their own in this case, as wrappers compute, and the loss is
    the mean over the ranks; `parts_run`: that can be.
    `mean_over`: whether the user's loss is a mean over the rows, or over those `targets` that are not
    ignored, of which ranks have unequal numbers.
    `reads` is how often a step of its code needs values on the host, by aten's operator: for a number, or for
    the size of a result. `mixes_tensors`: it mixes tensors that it makes itself with those that it is given.
    `loops` are torch's functions of control flow that it calls, such as `scan`.
    `results` are the floating-point tensors of its outputs behind the first by their places in there, each
    with what it is over the rows; `returns_object`: they are in an object, such as a dataclass, in which
    torch finds none. `kept` are its buffers.
    `styled` are the parameters that the user's plan for `parallelize_module` makes DTensors, with the dim
    that it cuts, None for one that it replicates; `styled_on` the sizes of its axis on which the module runs.
    `optimizer_by_shape`: the user's optimizer treats parameters by their shapes.
    `without` are the paths of modules that are replaced by the identity.
    """

    MAKES_TENSORS: ClassVar[bool] = True

    source: str
    files: Mapping[str, str]
    parameters: Parameters
    tied: Mapping[str, str] = {}
    inputs: tuple[str, ...] = ("0",)
    takes_dict: bool = False
    fed_dict: bool = False
    modules: Mapping[str, str] = {}
    lines: Mapping[str, str] = {}
    rowwise: bool = True
    parts_run: bool = False
    by_rank: bool = False
    mean_over: Literal["rows", "targets"] = "rows"
    reads: Mapping[str, int] = {}
    mixes_tensors: bool = True
    loops: tuple[str, ...] = ()
    results: Mapping[TensorName, OverRows] = {}
    returns_object: bool = False
    kept: Mapping[TensorName, Buffer] = {}
    styled: Mapping[TensorName, Annotated[int, msgspec.Meta(ge=0, le=63)] | None] = {}
    styled_on: tuple[int, ...] = ()
    optimizer_by_shape: bool = False
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

    def blocks_inside(self) -> tuple[str, ...]:
        """The members of its outermost lists and sequences of modules that have parameters, in order."""
        members: list[str] = []
        for path in self.modules:
            listed, _, number = path.rpartition(".")
            is_member = number.isdecimal() and self.modules.get(listed) in LISTS
            trained = any(name.startswith(f"{path}.") for name in self.parameters)
            if is_member and trained and not any(path.startswith(f"{one}.") for one in members):
                members.append(path)
        return tuple(members)

    def buffers(self) -> Parameters:
        """Its buffers, all of them replicated."""
        return {name: buffer.shape for name, buffer in self.kept.items()}

    def dtype_of(self, name: str, dtype: str) -> str:
        """The case's, but of buffers that hold no real floating-point numbers."""
        return (self.kept[name].dtype if name in self.kept else "") or dtype

    def of_all_rows(self) -> frozenset[str]:
        """The tensors, by their names in traces, that ranks with rows of their own do not have."""
        results = (result_name(place) for place, over in self.results.items() if over == "all")
        return frozenset((*results, *(f"0.{name}" for name, one in self.kept.items() if one.of_all_rows)))

    def borrows(self) -> Mapping[str, str]:
        """The tied names. The layer is a model's only one, so that full names begin with its index."""
        return {name: f"0.{owner}" for name, owner in self.tied.items()}

    @property
    def mixes_rows(self) -> bool:
        """As `workers.own` found out by trying; batches of the ranks' own do not influence each other."""
        return not (self.rowwise or self.by_rank)

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
        for what, names in (
            ("parameters", self.parameters),
            ("buffers", self.kept),
            ("results", self.results),
        ):
            if len(names) > MOST_TENSORS:
                return f"{len(names)} {what}; allowed: {MOST_TENSORS}"
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
            "kept": {name: buffer for name, buffer in self.kept.items() if stays(name)},
            "styled": {name: dim for name, dim in self.styled.items() if stays(name)},
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
        if self.by_rank:
            yield "own model has a batch on every rank"
        if self.returns_object:
            yield "own model returns an object"

    def no_style(self) -> str:
        """The styles depend on what the modules compute, so that the user's source must have a plan."""
        if self.styled:
            return ""
        return "no plan of parallelize_module follows from placements, and the user's source has no tp_plan"

    def styled_placements(self) -> Mapping[str, Shard | Replicate]:
        """The placements that the plan of styles gives over its axis."""
        dims = {name: self.styled.get(name) for name in self.parameters}
        return {name: Replicate() if dim is None else Shard(dim) for name, dim in dims.items()}

    def spelled(self, path: str, *, moves: bool) -> str:
        """A call of the user's function, which the script imports."""
        return f"{self.function}(SEED)"


def result_name(place: str, part: int = 0) -> str:
    """The name in traces of what is at a place of an accumulation part's outputs; of the first for ""."""
    first = f"output.{part}" if part else "output"
    return f"{first} {place}" if place else first
