"""A script and its output as maintainers read them: without the lines by which difftest reads an answer."""

import ast
import re

REPRODUCED = re.compile(r'^ *print\("BUG REPRODUCED" if .*\)\n', re.MULTILINE)
ANSWERS = frozenset({"BUG REPRODUCED", "not reproduced"})
MOST_OUTPUT = 6
"""The most lines of output that stand before the details."""

WIDEST_STATED = 160
"""A longer line of `expected A, actual B` is for the details."""

_VERSION = re.compile(r"^(?:On |With )?(?:torch|torch_xla|torchax|torch_tpu|jax|jaxlib) \d", re.IGNORECASE)
_STATUS = re.compile(r"^Exits? (?:with status )?0 (?:while|when|where|if) ")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`]|torch|jax)")
_BLANK = re.compile(r"\n{3,}")
_STATED = re.compile(r"\bexpected\b", re.IGNORECASE)
_RAISED = re.compile(r"^[\w.]+: \S")
TRACEBACK = "Traceback (most recent call last)"


def script(text: str) -> str:
    """The program without its docstring, which a draft's sentences say, and without its answer or status."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    lines = text.splitlines(keepends=True)
    first, last = tree.body[:1], tree.body[-1:]
    match last:
        case [ast.If(orelse=[], body=[_, *_, inner])]:
            last = [inner]
    docstring = first if ast.get_docstring(tree) else []
    for node in (*docstring, *(one for one in last if _is_exit(one))):
        lines[node.lineno - 1 : node.end_lineno] = ["\n"] + [""] * ((node.end_lineno or 0) - node.lineno)
    short = REPRODUCED.sub("", "".join(lines))
    if "sys." not in short:
        short = re.sub(r"^import sys\n", "", short, flags=re.MULTILINE)
    return _BLANK.sub("\n\n", short).strip("\n") + "\n"


def explanation(text: str) -> str:
    """What a known fault's docstring says after its first line, without the release and the status."""
    try:
        docstring = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError):
        return ""
    _, _, rest = docstring.partition("\n")
    sentences = _SENTENCE.split(" ".join(rest.split()))
    kept = [
        sentence
        for sentence in sentences
        if sentence and not _VERSION.match(sentence) and not _STATUS.match(sentence)
    ]
    return " ".join(one for one in kept if not one.startswith(("Fails by ", "Does not end.")))


def output(text: str, most: int = MOST_OUTPUT) -> str:
    """The lines that say what was expected and what came, or the exception; else the last ones, each once."""
    lines = [line for line in dict.fromkeys(text.splitlines()) if line.strip() and line not in ANSWERS]
    if TRACEBACK in text:
        raised = [number for number, line in enumerate(lines) if _RAISED.match(line)]
        return "\n".join(lines[raised[-1] :][:most] if raised else lines[-most:])
    return "\n".join(([line for line in lines if _STATED.search(line)] or lines)[-most:])


def stated(text: str) -> tuple[str, str]:
    """What a script printed as `expected A, actual B`; two empty texts where it did not, or at length."""
    for line in text.splitlines():
        named = re.match(r"(?:.*: )?expected (?P<expected>.+?),? actual (?P<actual>.+)$", line)
        if named and len(line) <= WIDEST_STATED:
            return named["expected"], named["actual"]
    return "", ""


def _is_exit(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="sys"), attr="exit"))):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit"))):
            return True
    return False
