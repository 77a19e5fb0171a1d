"""Building blocks in a reproducer: a block's own file, with the case's arguments put in.

What the arguments decide is decided, and what then is not needed is left out. So a script has the one class
that the case uses, without the options that it does not.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from difftest.cases.block import calls_control_flow
from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.building_block import Argument, BuildingBlock
from difftest.cases.script_values import python

BUILDS = "module"
"""The function of a block's file that makes its module from `arguments` and `sizes`."""

AT_HAND = {"torch", "nn", "functional"}
"""What every script imports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The module as an expression, and the classes, functions and imports that it needs."""

    expression: str
    imports: tuple[str, ...]
    definitions: tuple[str, ...]


def blocks(case: Case) -> Iterator[tuple[str, BuildingBlock]]:
    """The building blocks of a case, by their paths in the model."""
    return ((path, layer) for path, layer in walk(case.model.layers) if isinstance(layer, BuildingBlock))


def refusal(case: Case) -> str | None:
    """Why a script cannot have all blocks of a case; None if it can."""
    if calls_control_flow(case.model.layers):
        return "a script's reference would call the same control flow of torch; replay runs the case again"
    kinds = {(layer.block, tuple(layer.arguments.items())) for _, layer in blocks(case)}
    if len({block for block, _ in kinds}) < len(kinds):
        return "the case has a building block twice with different arguments, and a script can have it once"
    return None


def written(text: str, layer: BuildingBlock, case: Case) -> Written:
    """What the file `text` makes of the arguments of `layer`."""
    sizes = {"sequence": python(case.model.sequence), "rounded": f"torch.{case.dtype}"}
    tree = _Plain().visit(ast.parse(text))
    tree = _Folded().visit(_Filled(layer.arguments, sizes).visit(tree))
    build = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == BUILDS)
    build.name, build.args.args = f"make_{layer.block}", []
    body = [node for node in tree.body if node is not build]
    only = build.body[0]
    direct = only.value if isinstance(only, ast.Return) else None
    needed = [*_needed(direct or build, body), *([] if direct else [build])]
    return Written(
        expression=ast.unparse(direct) if direct else f"{build.name}()",
        imports=tuple(ast.unparse(node) for node in needed if isinstance(node, ast.Import | ast.ImportFrom)),
        definitions=tuple(
            ast.unparse(node) for node in needed if not isinstance(node, ast.Import | ast.ImportFrom)
        ),
    )


def _needed(root: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module that `root` needs, those that they need included, in their order."""
    read, kept = _names(root), list[ast.stmt]()
    while more := [node for node in body if node not in kept and read & (_defined(node) - AT_HAND)]:
        kept += more
        read = read.union(*(_names(node) for node in more))
    return [node for node in body if node in kept]


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    return {name for target in getattr(node, "targets", []) for name in _names(target)}


class _Plain(ast.NodeTransformer):
    """Without types and docstrings."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.returns = None
        return self.generic_visit(node)  # type: ignore[return-value]


class _Filled(ast.NodeTransformer):
    """With the values of `arguments` and `sizes` in their places."""

    def __init__(self, arguments: Mapping[str, Argument], sizes: Mapping[str, str]) -> None:
        self.arguments, self.sizes = arguments, sizes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        named = isinstance(node.value, ast.Name) and node.value.id == "arguments"
        if named and isinstance(node.slice, ast.Constant):
            return _written(self.arguments[str(node.slice.value)])
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "sizes":
            return ast.parse(self.sizes[node.attr], mode="eval").body
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        keywords = list[ast.keyword]()
        for keyword in node.keywords:
            whole = keyword.arg is None and isinstance(keyword.value, ast.Name)
            if whole and keyword.value.id == "arguments":  # type: ignore[attr-defined]
                keywords += [ast.keyword(name, _written(value)) for name, value in self.arguments.items()]
            else:
                keywords.append(keyword)
        node.keywords = keywords
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _written(dict(self.arguments)) if node.id == "arguments" else node


def _written(value: object) -> ast.expr:
    """A value as an expression."""
    return ast.parse(python(value), mode="eval").body


class _Folded(ast.NodeTransformer):
    """With what constants decide decided."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        decided = _constant(node.test)
        return node if decided is None else node.body if decided[0] else node.orelse

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        decided = _constant(node.test)
        return node if decided is None else node.body if decided[0] else node.orelse

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        self.generic_visit(node)
        ends = [number for number, one in enumerate(node.body) if isinstance(one, ast.Return)]
        node.body = node.body[: ends[0] + 1] if ends else node.body
        return node


_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def _constant(test: ast.expr) -> tuple[object] | None:
    """What an expression of constants alone comes to as a condition, in a tuple; None for any other."""
    match test:
        case ast.Constant():
            return (test.value,)
        case ast.UnaryOp(op=ast.Not()):
            operand = _constant(test.operand)
            return operand and (not operand[0],)
        case ast.BoolOp():
            parts = [_constant(value) for value in test.values]
            values = [part[0] for part in parts if part is not None]
            decides = all if isinstance(test.op, ast.And) else any
            return (decides(values),) if len(values) == len(parts) else None
        case ast.Compare(ops=[compared], comparators=[right]) if type(compared) in _COMPARED:
            left, other = _constant(test.left), _constant(right)
            return (_COMPARED[type(compared)](left[0], other[0]),) if left and other else None
    return None
