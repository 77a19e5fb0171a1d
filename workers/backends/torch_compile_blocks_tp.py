"""`Module.compile` of each residual block behind `parallelize_module` and `fully_shard`; the rest is eager.

torchtitan compiles so. What goes into a block is then an eager result, such as the output of a
tensor-parallel layer that is still on its way.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.layers import walk
from workers import sides
from workers.backends import torch_tp
from workers.torch import compiled, process_groups

if TYPE_CHECKING:
    from torch import nn

TITLE = "torch.compile of blocks behind parallelize_module"
SIDE = "torch"
FRAMEWORK = "torch"
PROFILE = replace(sides.TORCH, only_named=True)
PRELOAD = compiled.PRELOAD
processes = process_groups.processes
environment = process_groups.environment


def unsupported(case: Case) -> str | None:
    """Why `torch_tp` does not take the case, or why there is nothing to compile; or None."""
    nothing = None if _blocks(case) else "the model has no residual block, which is what is compiled"
    return torch_tp.unsupported(case) or nothing


def _blocks(case: Case) -> list[str]:
    """The paths of the residual blocks that no other block holds."""
    held = [path for path, layer in walk(case.model.layers) if layer.held is not None]
    return [path for path in held if not any(path.startswith(f"{other}.") for other in held)]


def _trace(case: Case, module: "nn.Module") -> "nn.Module":
    for path in _blocks(case):
        module.get_submodule(path).compile(backend=compiled.TRACED)
    return module


session = compiled.sessions(torch_tp.session, _trace)
