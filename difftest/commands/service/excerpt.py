"""One fault of a script that shows several: what the other faults alone need is left out.

Scripts of `tests/upstream/` list their faults in a dict `FAULTS` by name, and take names as arguments. A
maintainer who gets one fault should read no other.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence

LISTED = "FAULTS"

WIDEST = 110
"""Characters of a docstring's line."""

_SEVERAL = re.compile(r"\b(?:all|the) faults are\b")
"""What the docstring of a script of several faults says of them."""

_LINT = re.compile(r"  # noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*(?:  (?P<why>.*))?$|^# ruff: .*\n", re.MULTILINE)


def without_lint(text: str) -> str:
    """The script without what only this project's linter and formatter need; a reason beside that stays."""
    return _single_gaps(_LINT.sub(lambda match: f"  # {match['why']}" if match["why"] else "", text))


def excerpt(text: str, names: Sequence[str], about: str) -> str | None:
    """The script with the faults `names` alone, and `about` as the first words of its docstring.

    None where the script does not list its faults by name, or lacks one of them.
    """
    tree = ast.parse(text)
    faults = next((listing for node in tree.body if (listing := _listing(node))), None)
    if faults is None:
        return None
    entries = {key.value: (key, node) for key, node in _entries(faults)}
    if not names or not set(names) <= {*entries}:
        return None
    kept = "".join(f"    {': '.join(_source(text, one) for one in entries[name])},\n" for name in names)
    lines = text.splitlines(keepends=True)
    before, after = lines[: faults.lineno - 1], lines[faults.end_lineno :]
    short = "".join([*before, f"{LISTED} = {{\n{kept}}}\n", *after])
    part = _about(_pruned(short, _read(tree)), about)
    return part if len(names) > 1 else _SEVERAL.sub("the fault is", part, count=1)


def _entries(faults: ast.Dict) -> Iterator[tuple[ast.Constant, ast.expr]]:
    for key, node in zip(faults.keys, faults.values, strict=True):
        if isinstance(key, ast.Constant):
            yield key, node


def _source(text: str, node: ast.expr) -> str:
    return ast.get_source_segment(text, node) or ast.unparse(node)


def _listing(node: ast.stmt) -> ast.Dict | None:
    """The dict that a statement assigns to `FAULTS`."""
    if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == [LISTED]:
        return node.value if isinstance(node.value, ast.Dict) else None
    return None


def _read(tree: ast.AST) -> set[str]:
    """The names that are read anywhere."""
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _without(text: str, spans: Iterator[range]) -> str:
    gone = {number for span in spans for number in span}
    lines = text.splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines, 1) if number not in gone)


def _pruned(text: str, before: set[str]) -> str:
    """Without the imports, functions, classes and plain values that nothing reads any more."""
    while True:
        tree = ast.parse(text := _split(text, before))
        idle = before - _read_elsewhere(tree)
        gone = [node for node in tree.body if (defined := _defined(node)) and defined <= idle]
        shrunk = _without(text, (range(_first(node), (node.end_lineno or 0) + 1) for node in gone))
        if not gone:
            return _single_gaps(text)
        text = shrunk


def _split(text: str, before: set[str]) -> str:
    """Without those of several names that a line assigns or imports which nothing reads any more."""
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    idle = before - _read_elsewhere(tree)
    for node in reversed(tree.body):
        if isinstance(node, ast.ImportFrom) and 0 < len(named := _still(node, idle)) < len(node.names):
            lines[node.lineno - 1 : node.end_lineno] = [f"{ast.unparse(_importing(node, named))}\n"]
        pairs = _pairs(node)
        kept = [(name, value) for name, value in pairs if not (_names(name) <= idle and _only_makes(value))]
        if 0 < len(kept) < len(pairs):
            names, values = (
                ", ".join(_source(text, one) for one in ones) for ones in zip(*kept, strict=True)
            )
            lines[node.lineno - 1 : node.end_lineno] = [f"{names} = {values}\n"]
    return "".join(lines)


def _still(node: ast.ImportFrom, idle: set[str]) -> list[ast.alias]:
    return [alias for alias in node.names if (alias.asname or alias.name) not in idle]


def _importing(node: ast.ImportFrom, named: list[ast.alias]) -> ast.ImportFrom:
    return ast.ImportFrom(node.module, named, node.level)


def _pairs(node: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """The names and values of `a, b = 1, 2`; empty for any other statement."""
    if not isinstance(node, ast.Assign) or len(node.targets) > 1:
        return []
    names, values = node.targets[0], node.value
    if not isinstance(names, ast.Tuple) or not isinstance(values, ast.Tuple):
        return []
    return list(zip(names.elts, values.elts, strict=True)) if len(names.elts) == len(values.elts) else []


def _read_elsewhere(tree: ast.Module) -> set[str]:
    """The names that are read, but for those that a function or class reads of itself."""
    return {name for node in tree.body for name in _read(node) - _defined(node)}


def _first(node: ast.stmt) -> int:
    """The line of a definition's first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _defined(node: ast.stmt) -> set[str]:
    """What a statement defines, and nothing else; empty for one that also does something."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, ast.Assign) and _only_makes(node.value):
        return {name for target in node.targets for name in _names(target)}
    return set()


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _only_makes(value: ast.expr) -> bool:
    """Whether nothing happens beside the value: a call of torch's, NumPy's or JAX's makes a tensor."""
    calls = (ast.unparse(one.func) for one in ast.walk(value) if isinstance(one, ast.Call))
    return all(name.startswith(("torch.", "np.", "jax.")) for name in calls)


def _single_gaps(text: str) -> str:
    """One empty line where there are more."""
    lines = text.splitlines()
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
    return "\n".join(kept) + "\n"


def _about(text: str, about: str) -> str:
    """With another first paragraph of the docstring, one that speaks of these faults alone."""
    old = (ast.get_docstring(ast.parse(text), clean=False) or "").partition("\n\n")[0]
    words = (about[:1].upper() + about[1:]).replace("\\", "\\\\").replace('"', "'")
    return text.replace(old, textwrap.fill(f"{words}.", WIDEST), 1) if old and words else text
