"""What a reproducer's template needs of a case of a user's module: the files themselves, and what is drawn.

The script contains the user's files, writes them into a folder of its own and imports them from there. So it
runs anywhere, and its reader sees the model.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from difftest.cases.case import Case
from difftest.cases.layers.own import Own
from difftest.cases.schema import NAME
from difftest.cases.script_values import python
from difftest.ground import sources
from reports.reproducer import features, recipe
from reports.reproducer.script import Script

MOST_SEED = 2**31
"""The seeds that the user's functions are given are below it, as in the workers."""

MASKED = re.compile(r"dropout_p|MultiheadAttention|nn\.Transformer")
"""What draws masks inside of torch's attention, which no script writes yet."""

LOOPED = re.compile(r"_higher_order_ops\b|\btorch\.cond\b")
"""What a source has that calls `scan` or its like, whose compiled body the reference does not run."""

_BLANK = re.compile(r"\n{4,}")
_UNSEEN = re.compile(r"[^\n\x20-\x7e\xa0-\ud7ff\ue000-\uffff]")


def refusal(layer: Own) -> str | None:
    """Why no script can be written for the module, or None.

    `UsageError` where its files are not there, or have changed.
    """
    texts = texts_of(layer).values()
    if any(MASKED.search(text) for text in texts):
        return "the model's attention has dropout, whose masks no script can draw yet"
    if any(LOOPED.search(text) for text in texts):
        return "the model calls torch's functions of control flow, which no script runs as loops yet"
    odd = [name for name in layer.tied if not re.fullmatch(NAME, name.rpartition(".")[2])]
    return f"the tied parameter {odd[0]!r} has a name that Python cannot assign to" if odd else None


def texts_of(layer: Own) -> dict[str, str]:
    """The files of the model by their paths: the user's, or one that says what a recipe does.

    `UsageError` where the user's are not there, or have changed.
    """
    if layer.recipe:
        return {recipe.FILE: recipe.text(layer.source, layer.recipe)}
    return sources.texts(layer.files)


def quoted(text: str) -> str:
    """A file's text as a string of Python, line by line, which later tidying of the script leaves alone."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    escaped = _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), escaped)
    escaped = _BLANK.sub(lambda match: "\\n" * len(match[0]) + "\\\n", escaped)
    end = "" if text.endswith("\n") else "\\\n"
    return f'"""\\\n{escaped}{end}"""'


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnScript(Script):
    """The pieces of a script that are not those of a generated model."""

    layer: Own

    @property
    def literal(self) -> bool:
        """The user's functions make the numbers."""
        return False

    @property
    def early(self) -> bool:
        """The loss may need what the output does not show."""
        return False

    @property
    def all_floats(self) -> bool:
        """Inputs may be anything."""
        return False

    @property
    def files(self) -> Mapping[str, str]:
        """The user's files, quoted, by their paths."""
        return {name: quoted(text) for name, text in texts_of(self.layer).items()}

    @property
    def drops(self) -> bool:
        """Whether the model may drop elements, of which all sides must drop the same."""
        texts = "".join(texts_of(self.layer).values())
        return "dropout" in texts.lower()

    @property
    def _place(self) -> tuple[str, str]:
        """The folder that Python needs on its path, and the name that it imports."""
        if self.layer.recipe:
            return ".", PurePosixPath(recipe.FILE).stem
        place = PurePosixPath(self.layer.place)
        if place.suffix == ".py":
            return str(place.parent), place.stem
        path = str(place).replace(".", "/")
        in_src = {f"src/{path}.py", f"src/{path}/__init__.py"} & {*self.layer.files}
        return "src" if in_src else ".", str(place)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the user's files that Python needs on its path."""
        return tuple(dict.fromkeys((self._place[0], ".")))

    @property
    def imports(self) -> str:
        """The name of the user's module."""
        return self._place[1]

    @property
    def function(self) -> str:
        """The function that builds the model."""
        return self.layer.function

    @property
    def seed(self) -> int:
        """What the user's function is given."""
        return self.case.seed % MOST_SEED

    @property
    def batch_seeds(self) -> str:
        """The seeds of the steps' batches: one number, or one for each step in the variable `step`."""
        seeds = [batch_seed(self.case, step) for step in range(self.fault.steps)]
        return str(seeds[0]) if len({*seeds}) == 1 else f"{seeds}[step]"

    @property
    def passed(self) -> str:
        """How the model takes its inputs: `one`, `several` in order, by `names`, or as a `dict`."""
        if self.layer.takes_dict:
            return "dict"
        if not all(name.isdigit() for name in self.layer.inputs):
            return "names"
        return "one" if len(self.layer.inputs) == 1 else "several"

    @property
    def count(self) -> str:  # type: ignore[override]
        """The number of target values, which the script counts."""
        return "count"

    @property
    def ties(self) -> tuple[tuple[str, str], ...]:
        """Tied parameters as (further name, first name), both as attributes of `model`."""
        borrowed = self.layer.borrows()
        return tuple((_attribute(f"0.{name}"), _attribute(owner)) for name, owner in borrowed.items())

    @property
    def optimizer(self) -> str:
        """The optimizer, or the user's."""
        if self.case.training.optimizer == "own":
            return "user.optimizer(list(model.parameters()))"
        return features.constructed(self.case)

    def expected_kind(self, local: bool, dtensors: bool) -> str:  # noqa: FBT001  for templates
        """As for generated models; the shape of an output is that of a run on the host."""
        if self.fault.tensor in self.case.model.parameters() or self.fault.wants_loss:
            return Script.expected_kind(self, local, dtensors)
        whole = f"train(build({self.dtype}), lambda tensor: tensor)"
        return f"(tuple({f'feed({whole})' if local else whole}.shape), {self.dtype})"

    def standard_library(self, more: tuple[str, ...]) -> list[str]:
        """The modules that a script on XLA imports first."""
        dropping = {"threading"} if self.drops else set()
        needed = {*Script.standard_library(self, more), "importlib", "pathlib", "random", "sys", "tempfile"}
        return sorted(needed | dropping)


def batch_seed(case: Case, step: int) -> int:
    """The seed of a step's batch, as the workers have it (`workers.own.made`)."""
    text = f"{case.seed} own batch {0 if case.data.learnable else step}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % MOST_SEED


def _attribute(name: str) -> str:
    """A parameter's full name as an attribute of the script's model: `0.a.weight` is `[0].a.weight`."""
    path, _, last = name.rpartition(".")
    return f".get_submodule({python(path)}).{last}"
