"""The text of a script as somebody would leave it who wrote it."""

import ast
import re

WIDEST = 120
"""The most characters of a line that is made of several."""

_FED = re.compile(
    r"(?P<indent> *)inputs = (?P<inputs>.*)\n *targets = (?P<targets>.*)\n"
    r" *x, y = feed\(inputs\), feed\(targets\)\n"
)
"""Numbers that are drawn and fed; with more between them they keep their names."""

_OUTPUT = re.compile(r"^ *output = (model\(x\))\n( *loss = .*)\boutput\b", re.MULTILINE)
"""An output that the loss below it reads; elsewhere it keeps its name."""

READ_ONCE = 2
"""The times that a name stands in a script which is read once."""

_LOOSE = re.compile(
    r"^((?:import |from ).*)\n\n(?=import |from |os\.environ)"
    r"|^(\w[\w.]*(?:\(| = ).*)\n\n(?=\w[\w.]*(?:\(| = ))",
    re.MULTILINE,
)
"""An empty line between imports, or between assignments and calls, none of which is indented."""

_GONE = "\0"


def tidied(text: str, *, short: bool = False) -> str:
    """The script without unused imports and further empty lines.

    A `short` one has single empty lines around functions alone, and no names for numbers that are fed at
    once. That is not for scripts with a user's source, which must stay as it is.
    """
    pruned = _pruned(text)
    if short:
        fed = _FED.sub(_inlined, pruned)
        once = _OUTPUT.sub(r"\2\1", fed) if len(re.findall(r"\boutput\b", fed)) == READ_ONCE else fed
        single = re.sub(r"\n{3,}", "\n\n", once).strip("\n") + "\n"
        return _LOOSE.sub(lambda match: f"{match[1] or match[2]}\n", single)
    return re.sub(r"\n{4,}", "\n\n\n", pruned).strip("\n") + "\n"


def _inlined(fed: re.Match[str]) -> str:
    line = f"{fed['indent']}x, y = feed({fed['inputs']}), feed({fed['targets']})\n"
    return line if len(line) <= WIDEST else fed[0]


def _pruned(text: str) -> str:
    """The script without unused imports: a template imports everything that any of its scripts may need."""
    tree, lines = ast.parse(text), text.splitlines()
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [
                alias for alias in node.names if (alias.asname or alias.name).partition(".")[0] in used
            ]
            lines[node.lineno - 1] = ast.unparse(node) if node.names else _GONE
    return "\n".join(line for line in lines if line != _GONE)
