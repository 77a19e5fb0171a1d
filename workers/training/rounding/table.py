"""Writes the table of all operators: `python -m workers.training.rounding.table`.

torch's schemas and tags say what a view is, what draws random numbers, and what is taken apart into other
operators before it is computed. `classified.toml` has the rest, written by hand.
"""

import textwrap
import tomllib
from functools import cache
from pathlib import Path

import torch

from workers.training.rounding import CLASSES, TABLE

CLASSIFIED = Path(__file__).parent / "classified.toml"
HEADER = (
    "# Written by `python -m workers.training.rounding.table` from torch's schemas and classified.toml.\n"
)


def main() -> None:
    """Writes the table anew."""
    TABLE.write_text(text())


def text() -> str:
    """The table as TOML: the names of the operators of each class."""
    by_class: dict[str, list[str]] = {kind: [] for kind in CLASSES}
    chosen = by_hand()
    names = sorted({*overloads(), *chosen})
    for name in names:
        by_class[_class(name, chosen)].append(name)
    return HEADER + "".join(
        f'\n{kind} = """\n{textwrap.fill(" ".join(those), 110, break_on_hyphens=False)}\n"""\n'
        for kind, those in by_class.items()
    )


def by_hand() -> dict[str, str]:
    """The classes of `classified.toml` by operator; `ValueError` for a name that has two."""
    chosen: dict[str, str] = {}
    for group in tomllib.loads(CLASSIFIED.read_text())["group"]:
        for name in group["operators"].split():
            if chosen.setdefault(name, group["class"]) != group["class"]:
                message = f"{name} is {group['class']} and {chosen[name]}; allowed: one class"
                raise ValueError(message)
    return chosen


@cache
def overloads() -> dict[str, list[str]]:
    """The full names of the overloads of every aten operator, by its name without `aten::`."""
    names: dict[str, list[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():  # noqa: SLF001  no public list
        if full.startswith("aten::"):
            names.setdefault(full.removeprefix("aten::").partition(".")[0], []).append(full)
    return names


def _class(name: str, chosen: dict[str, str]) -> str:
    """By hand, else by schema, else that of the operator of which it is a form."""
    functions = [func for full in overloads()[name] if (func := _overload(full))]
    plain = [func for func in functions if "out" not in func._overloadname]  # noqa: SLF001  no public name
    results = [str(result.type) for func in plain for result in func._schema.returns]  # noqa: SLF001
    tags = {tag for func in functions for tag in func.tags}
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
    kinds = (
        (chosen.get(name), name in chosen),
        (
            "exact",
            any(func.is_view for func in functions) or tags & {torch.Tag.view_copy, torch.Tag.inplace_view},
        ),
        ("once", name.startswith("_foreach_")),  # the clipping of gradients has always been rounded once
        (chosen.get(name.removesuffix("_")), name.removesuffix("_") in chosen),
        ("random", torch.Tag.nondeterministic_seeded in tags),
        ("exact", results and not any("Tensor" in result for result in results)),
        ("composite", all(has_kernel(full, "CompositeImplicitAutograd") for full in overloads()[name])),
        ("unknown", True),
    )
    return next(str(kind) for kind, holds in kinds if holds)


def _overload(full: str) -> torch._ops.OpOverload | None:
    """None for an operator whose schema Python cannot express."""
    name, _, overload = full.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, name, None)
    return getattr(packet, overload or "default", None)


if __name__ == "__main__":
    main()
