"""Writes `difftest/records/reachable.json`: what runs can reach in the installed torch and torch_xla.

    python tools/reachable.py

For each of torch's own operators, without overload, letters say what it is (`difftest.records.reachable`).
"""

from pathlib import Path

import msgspec
import torch
import torch_xla
from torch.distributed.tensor import DTensor

FILE = Path(__file__).parent.parent / "difftest" / "records" / "reachable.json"
ATEN = "aten::"
DENSE = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
"""The dispatch keys whose kernels compute on dense tensors on the CPU."""


def main() -> None:
    """Writes the file anew."""
    overloads: dict[str, list[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith(ATEN):
            overloads.setdefault(_base(name), []).append(name)
    propagator = DTensor._op_dispatcher.sharding_propagator
    rules = {_base(one._schema.name) for one in (*propagator.op_to_rules, *propagator.op_strategy_funcs)}
    kernels = {_base(name) for name in torch._C._dispatch_get_registrations_for_dispatch_key("XLA")}
    operators = {
        base: _letters(names) + "d" * (base in rules) + "x" * (base in kernels)
        for base, names in sorted(overloads.items())
    }
    versions = {"torch": torch.__version__.partition("+")[0], "torch_xla": torch_xla.__version__}
    held = {**versions, "operators": operators}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(held), indent=1) + b"\n")
    print(f"{len(operators)} operators, {len(rules)} with a rule, {len(kernels)} with a kernel of torch_xla")


def _base(name: str) -> str:
    return name.removeprefix(ATEN).partition(".")[0]


def _letters(names: list[str]) -> str:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    own = [name for name in names if not name.endswith("out")] or names  # torch makes the others from these
    composite = all(has(name, "CompositeImplicitAutograd") for name in own)
    dense = composite or any(has(name, key) for name in own for key in DENSE)
    random = any(torch.Tag.nondeterministic_seeded in _overload(name).tags for name in names)
    return "c" * composite + "n" * (not dense) + "r" * random


def _overload(name: str) -> torch._ops.OpOverload:
    base, _, overload = name.removeprefix(ATEN).partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


if __name__ == "__main__":
    main()
