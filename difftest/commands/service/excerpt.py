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

_LINT = re.compile(r"  # noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*(?:  (?P<why>.*))?$|^# ruff: .*\n", re.MULTILINE)


def without_lint(text: str) -> str:
    """The script without what only this project's linter reads; a reason beside that stays."""
    return _LINT.sub(lambda match: f"  # {match['why']}" if match["why"] else "", text)


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
    return _about(_pruned(short, _read(tree)), about)


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
        tree = ast.parse(text)
        idle = before - _read_elsewhere(tree)
        gone = [node for node in tree.body if (defined := _defined(node)) and defined <= idle]
        shrunk = _without(text, (range(_first(node), (node.end_lineno or 0) + 1) for node in gone))
        if not gone:
            return _single_gaps(text)
        text = shrunk


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
    if isinstance(node, ast.Assign) and not any(isinstance(one, ast.Call) for one in ast.walk(node.value)):
        return {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return set()


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
