"""What a zygote imports before any run of a model of the user's, so that its ranks need not.

Importing transformers takes seconds. A user's file may import anything, and what is imported before a fork
must start no thread and touch no device: of the packages that are imported here this is known.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from difftest.cases.case import Case
from difftest.cases.recipe import PRELOADED


def of_case(case: Case) -> tuple[str, ...]:
    """What the case's model imports, each as `module:attribute`, sorted; nothing for other models."""
    layer = case.model.own
    if layer is None:
        return ()
    if layer.recipe:
        return layer.recipe.imports
    return tuple(sorted({one for name in layer.files for one in _imports(Path.cwd() / name)}))


def _imports(file: Path) -> Iterator[str]:
    """What a file imports of the packages, anywhere in it; nothing of a file that cannot be read."""
    try:
        tree = ast.parse(file.read_text())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"{one.name}:" for one in node.names if _is_known(one.name))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level and _is_known(node.module):
            yield from (f"{node.module}:{one.name}" for one in node.names if one.name != "*")


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in PRELOADED
