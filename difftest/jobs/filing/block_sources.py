"""The source of building blocks, which a reproducer's script holds in place of an import."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from difftest.cases.case import Case

OWN = "workers"
FOLDER = "workers.training.blocks"


def block_texts(case: Case) -> Mapping[str, str]:
    """By the name of each building block of a case, its file with what that imports from other files."""
    from reports.reproducer.blocks import blocks

    return {layer.block: _whole(f"{FOLDER}.{layer.block}") for _, layer in blocks(case)}


def _whole(module: str) -> str:
    tree = ast.parse(_text(module))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    borrowed = [node for node in imports if (node.module or "").partition(".")[0] == OWN]
    tree.body = [node for node in tree.body if node not in borrowed]
    functions = [function for node in borrowed for function in _functions(node)]
    return ast.unparse(ast.Module([*tree.body, *functions], []))


def _functions(node: ast.ImportFrom) -> Iterator[ast.stmt]:
    """The functions that an import names; types are of no use to a script."""
    names = {alias.name for alias in node.names}
    body = ast.parse(_text(node.module or "")).body
    return (one for one in body if isinstance(one, ast.FunctionDef) and one.name in names)


def _text(module: str) -> str:
    """A module's source, without importing it: that would need torch."""
    import workers

    place = Path(workers.__path__[0]).parent.joinpath(*module.split("."))
    return (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text()
