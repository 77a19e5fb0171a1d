"""What a script of a rendered case may name: torch, the frameworks of the backends, and a little of Python.

A case may come from elsewhere. Its options have types, and their values reach a script by one door
(`difftest.cases.script_values`). Should anything else ever reach it, the script's syntax tree shows it, and
the script is neither run nor written.
"""

import ast

from difftest.cases.calls import BEYOND_TENSORS
from difftest.ground.errors import UsageError

FRAMEWORKS = frozenset({"torch", "torch_xla", "torchax", "jax", "numpy"})

STANDARD = frozenset(
    {
        *("contextlib.nullcontext", "contextlib.contextmanager", "hashlib.sha256", "io.BytesIO", "math.inf"),
        *("math.isqrt", "math.nan", "os.environ", "os.environ.get", "os.environ.update", "tempfile.mktemp"),
        *("threading.Barrier", "threading.BrokenBarrierError", "threading.local", "time.sleep"),
        "types.SimpleNamespace",
    }
)
"""What of the standard library."""

OF_OWN_MODULES = frozenset(
    {
        *("importlib.import_module", "pathlib.Path", "random.seed", "sys.path", "sys.path.insert"),
        *("tempfile.TemporaryDirectory",),
    }
)
"""What else of it is in the script of a user's own module, which it writes into a folder and imports."""

BELOW = frozenset(
    {
        *("Tensor", "ReduceOp", "_XLAC", "_pytree", "_world", "amp", "aten", "autograd", "default_generator"),
        *("distributed", "distributed_c10d", "fft", "forward_ad", "func", "functional", "graph", "linalg"),
        *(
            "lr_scheduler",
            "masked",
            "nn",
            "ops",
            "optim",
            "parallel",
            "random",
            "signal",
            "special",
            "swa_utils",
            "utils",
        ),
        *("windows", "_op_dispatcher", "runtime", "core", "xla_model", "spmd", "experimental", "metrics"),
    }
)
"""The names between that of a framework's module and the last one."""

ATEN = ["torch", "ops", "aten"]

REFUSED = (frozenset(BEYOND_TENSORS) - {"compile", "wait"}) | {
    *("os", "sys", "subprocess", "builtins", "importlib", "hub", "serialization", "cpp_extension", "_C"),
    *("system", "popen", "fromfile", "tofile", "memmap", "load_library", "loadtxt", "savetxt", "*"),
}
"""Names of frameworks, and attributes of anything, that lead out of tensors."""

BUILTINS = frozenset(
    {
        *("eval", "exec", "compile", "open", "globals", "vars", "breakpoint", "setattr", "delattr", "help"),
        "getattr",
    }
)
"""The builtin functions that no script has; `getattr` only of a name that the script spells out."""

ATTRIBUTES = frozenset({"module", "_orig_mod"})

_SIDES, _SIGNS = ("", "i", "r"), ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and")
DUNDERS = frozenset(
    {
        *(f"__{side}{sign}__" for side in _SIDES for sign in (*_SIGNS, "or", "xor", "lshift", "rshift")),
        *("__getitem__", "__invert__", "__neg__", "__file__", "__name__", "__init__", "__dict__"),
        "__torch_dispatch__",
    }
)
"""The names of this kind: those of the templates, and those of arithmetic, which are operators of tensors."""


def require_permitted(text: str, *, own: bool = False) -> None:
    """`UsageError` where a script names what no reproducer may, or is no Python.

    `own`: it is that of a user's own module, whose source it holds as texts.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        msg = f"the script of this case would be no Python: {error}; it is neither run nor written"
        raise UsageError(msg) from error
    names = _Names(STANDARD | OF_OWN_MODULES if own else STANDARD)
    names.visit(tree)
    for line, name in names.refused:
        msg = (
            f"the script of this case would name {name!r} in line {line}; allowed: torch, the frameworks of "
            "the backends, and what the templates use of Python; it is neither run nor written"
        )
        raise UsageError(msg)


class _Names(ast.NodeVisitor):
    """Collects the lines and the names that are refused, given what of the standard library is not."""

    def __init__(self, standard: frozenset[str]) -> None:
        self.standard, self.refused = standard, list[tuple[int, str]]()
        self.modules = {dotted.partition(".")[0] for dotted in standard}
        self.origins = dict[str, str]()
        """The full names of what is imported, by the names in the script."""

    def _require(self, node: ast.AST, name: str, *, permitted: bool) -> None:
        if not permitted:
            self.refused.append((getattr(node, "lineno", 0), name))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root, *inner = alias.name.split(".")
            self.origins[alias.asname or root] = alias.name if alias.asname else root
            plain = root in FRAMEWORKS and not REFUSED & {*inner}
            self._require(node, alias.name, permitted=plain or alias.name in self.modules)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            root, *inner = name.split(".")
            self.origins[alias.asname or alias.name] = name
            plain = root in FRAMEWORKS and not node.level and not REFUSED & {*inner}
            self._require(node, name, permitted=plain or name in self.standard)

    def visit_Call(self, node: ast.Call) -> None:
        """What is refused by itself is permitted with the arguments that templates give it."""
        if _is_plain(node):
            for argument in (*node.args, *node.keywords):
                self.visit(argument)
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts = list[str]()
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        origin = self.origins.get(inner.id, "") if isinstance(inner, ast.Name) else ""
        self._require(node, ".".join((origin, *parts)), permitted=self._is_permitted(origin, parts))
        self.visit(inner)

    def _is_permitted(self, origin: str, parts: list[str]) -> bool:
        """Whether attributes may be read, one of another; the first of what is imported from `origin`."""
        if REFUSED & {*parts} or any(map(_is_hidden, parts)):
            return False
        if not origin or origin in self.standard:
            return True
        if origin.partition(".")[0] in FRAMEWORKS:
            return {*parts[:-1]} <= BELOW or [origin, *parts[:2]] == ATEN
        return ".".join((origin, *parts)) in self.standard

    def visit_Name(self, node: ast.Name) -> None:
        self._require(node, node.id, permitted=node.id not in BUILTINS and not _is_hidden(node.id))

    def visit_arg(self, node: ast.arg) -> None:
        self._require(node, node.arg, permitted=node.arg not in BUILTINS and not _is_hidden(node.arg))


def _is_hidden(name: str) -> bool:
    """Whether a name leads to Python's machinery."""
    return name.startswith("__") and name.endswith("__") and name not in DUNDERS and name != "__"


def _is_plain(call: ast.Call) -> bool:
    """Whether it reads an attribute by its name, or its own buffer."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return name in ATTRIBUTES
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="EXTRAS"), ast.Attribute()]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save"), args=args):
            return all(isinstance(argument, ast.Name | ast.List | ast.NamedExpr) for argument in args)
    return False
