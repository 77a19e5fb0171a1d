"""The core names no check, kind of layer, backend or side.

A plug-in's own file declares what the core must know of it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from rooms import ROOT, source_files

from difftest.ground import plugins
from workers import backends

FOLDERS = ("difftest.judge.checks", "difftest.cases.layers", "workers.backends")
SIDES = {backends.load(name).SIDE for name in backends.candidates()}
NAMES = {name for folder in FOLDERS for name in plugins.names(folder)} | SIDES

HOMONYMS = {
    "convergence": "the command's option",
    "embedding": "a way in which `parallelize_module` splits a layer",
    "linear": "a way in which `parallelize_module` splits a layer",
    "loss": "the tensor, and the training option",
    "oracle": "the reference, which the core runs beside every backend",
    "own": "the loss and the optimizer that a module of the user's brings",
    "torch": "the package",
    "torchax": "the package",
    "xla": "the extra of this package that brings torch_xla",
}
"""Names that have another meaning in the core; comparisons and tables are searched for sides as well."""

IDENTITIES = {"backend", "check", "framework", "side", "SIDE", "FRAMEWORK"}
"""Attributes that hold a plug-in's name."""

PLUGIN_FOLDERS = ("judge/checks", "cases/layers", "findings/ablations", "reduce/simplifications")
CORE = [
    file
    for file in source_files()
    if file.is_relative_to(ROOT / "difftest")
    and not any(file.is_relative_to(ROOT / "difftest" / folder) for folder in PLUGIN_FOLDERS)
]


def texts(tree: ast.Module) -> Iterator[str]:
    """The string constants of a file, without docstrings and other bare strings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def identity_comparisons(tree: ast.Module) -> Iterator[str]:
    """Comparisons of a plug-in's name with a text, as source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = any(isinstance(side, ast.Attribute) and side.attr in IDENTITIES for side in sides)
            if named and any(isinstance(side, ast.Constant) and side.value for side in sides):
                yield ast.unparse(node)


def tables_by_side(tree: ast.Module) -> Iterator[str]:
    """Dicts with an entry for every side, as source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if keys >= SIDES:
                yield ast.unparse(node)


def test_there_are_several_sides_and_homonyms_are_plugin_names() -> None:
    assert len(SIDES) > 1
    assert set(HOMONYMS) <= NAMES


def plugins_named(file: Path) -> list[str]:
    """What of a file names a plug-in; a word that means something else goes into HOMONYMS."""
    tree = ast.parse(file.read_text())
    names = {text for text in texts(tree) if text in NAMES - set(HOMONYMS)}
    return [*names, *identity_comparisons(tree), *tables_by_side(tree)]


def test_the_core_names_no_check_kind_backend_or_side() -> None:
    assert CORE
    assert {str(file): named for file in CORE if (named := plugins_named(file))} == {}


def test_a_plugin_that_the_core_names_is_reported(tmp_path: Path) -> None:
    file, sides = tmp_path / "core.py", sorted(SIDES)
    for line in ("x = 'conv'", f"y = one.side == {sides[0]!r}", f"z = {dict.fromkeys(sides, 1)}"):
        file.write_text(line)
        assert plugins_named(file), line


def test_only_the_loader_of_a_plugin_folder_loads_untyped() -> None:
    """Other modules have a typed loader to use."""
    modules = [file for file in source_files() if file.name != "__init__.py"]
    assert [str(file) for file in modules if "plugins.load(" in file.read_text()] == []
