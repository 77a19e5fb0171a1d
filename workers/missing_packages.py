"""Exceptions that mean that a package is missing: nothing is wrong with the framework that raised them.

Where the package is one of those that difftest and the backend require, the installation is broken. Any other
is optional: what it would bring is not supported here, which is no finding.
"""

import importlib
import importlib.util
import re
from collections.abc import Iterator, Sequence

from packaging.utils import canonicalize_name

from difftest.ground import installed

SWALLOWED = {
    "Jax is required for this feature": ("jax", "torchax.tensor", "torchax.interop", "torchax.ops.mappings"),
    "Jax dependency is required": ("jax",),
    "requires jax/pallas": ("jax",),
}
"""Words that replace an `ImportError` which was caught, and the modules that were imported before them.

torch_xla 2.9 says the first where torchax, or flax which torchax imports, is missing: JAX is there.
"""

_NAME = r"[`'\"]?(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,]+\])?[`'\"]?"
_NAMED = (
    re.compile(rf"\bpip install(?: --?[\w-]+)* {_NAME}"),
    re.compile(rf"\b[Pp]lease install (?:the )?{_NAME}(?: package)?(?=\.|,|$| to | and )"),
    re.compile(rf"{_NAME} (?:package |module )?(?:to be|must be|is required but not) installed"),
)
"""How messages name a package that is to be installed: `Please install tabulate`, `rich to be installed`."""

_PRONOUNS = ("it", "them")


def missing_package(error: BaseException) -> str:
    """The package without which `error` was raised, or what that was raised from; empty for any other error.

    A package that a message names counts only if it is not here: a message may advise to install something
    whatever is.
    """
    for cause in _chain(error):
        if isinstance(cause, ModuleNotFoundError) and cause.name and not _is_here(cause.name):
            return cause.name.partition(".")[0]
        if caught := next((modules for words, modules in SWALLOWED.items() if words in str(cause)), ()):
            return _first_missing(caught)
        for match in (match for pattern in _NAMED for match in pattern.finditer(str(cause))):
            name = match["name"].rstrip(".-")
            if name not in _PRONOUNS and not (_is_here(name) or installed.version(name)):
                return name
    return ""


def is_required(package: str, modules: Sequence[str]) -> bool:
    """Whether difftest, or a backend that imports `modules`, cannot do without `package`."""
    backend = {module.partition(".")[0] for module in modules}
    return canonicalize_name(package) in installed.required("ray", "torch", *sorted(backend))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def _first_missing(modules: Sequence[str]) -> str:
    """The package for want of which one of `modules` cannot be imported; empty where all can be."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            return (error.name or module).partition(".")[0]
        except ImportError:
            return module.partition(".")[0]
    return ""


def _is_here(module: str) -> bool:
    """Whether the package of a module can be imported."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except ValueError:  # it is there, without a specification
        return True
