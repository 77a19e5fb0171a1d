"""Scripts, their output and `collect_env` as maintainers read them, who want the lines that say something."""

import ast
import re
from collections.abc import Iterator

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
_DIGITS = re.compile(r"-?\d+\.\d{9,}(?:e[-+]\d+)?")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
_VALUE = re.compile(r"(?=.*[\[{<_*])[-\d\[({'\"t]")
"""What Python prints of a value, where Markdown would act on it."""

TRACEBACK = "Traceback (most recent call last)"


KEPT = (
    *("PyTorch version", "CUDA used to build", "ROCM used to build", "OS", "Libc version", "Python version"),
    *("Is CUDA available", "GPU models", "Nvidia driver", "cuDNN version"),
)
PACKAGES = frozenset({"jax", "jaxlib", "numpy", "torch", "torch-xla", "torch_xla", "torchax", "torch_tpu"})
EMPTY = frozenset({"N/A", "Could not collect", ""})


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


def valued(*texts: str) -> tuple[str, ...]:
    """The texts with no more digits of a number than tell them apart, as code where Markdown would act."""
    short = [_DIGITS.sub(lambda number: f"{float(number[0]):.7g}", text) for text in texts]
    numbers, fewer = ({tuple(_NUMBER.findall(text)) for text in each} for each in (texts, short))
    shown = short if len(numbers) == len(fewer) else texts
    return tuple(f"`{text}`" if _VALUE.match(text) and "`" not in text else text for text in shown)


def environment(collected: str) -> str:
    """The versions, system and GPU in what `collect_env` prints, without the processor's flags.

    A text of another form, such as why there is none, as it is.
    """
    return "\n".join(_versions(collected)) or collected


def _versions(collected: str) -> Iterator[str]:
    for line in collected.splitlines():
        name, _, value = line.partition(":")
        pip = line.removeprefix("[pip3] ")
        if pip != line and pip.partition("==")[0] in PACKAGES:
            yield pip
        elif name.startswith(KEPT) and value.strip() not in EMPTY:
            yield line


def _is_exit(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="sys"), attr="exit"))):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit"))):
            return True
    return False
