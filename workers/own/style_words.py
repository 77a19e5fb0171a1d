"""What a plan for `parallelize_module` consists of: names of modules, and words for torch's styles.

Models of transformers carry a plan in such words.
"""

import inspect
from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle


PLAN = "tp_plan"


def of_source(functions: ModuleType) -> Any:  # noqa: ANN401  what the user's source has
    """The plan of styles of a source, `tp_plan`, or a `plan` of the model and a mesh; None where it has none.

    A `plan` of the mesh alone gives placements (`workers.own.placed`).
    """
    plan = getattr(functions, PLAN, None)
    return plan if plan is not None or places(functions) else getattr(functions, "plan", None)


def places(functions: ModuleType) -> bool:
    """Whether a source has a `plan` of the mesh alone."""
    plan = getattr(functions, "plan", None)
    return callable(plan) and len(inspect.signature(plan).parameters) == 1


def matched(module: nn.Module, pattern: str) -> set[str]:
    """The modules inside that a pattern names, as `parallelize_module` matches: part by part of a name."""
    wanted = pattern.split(".")
    names = ((name, name.split(".")) for name, _ in module.named_modules())
    return {
        name for name, parts in names if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
    }


def by_word() -> "dict[str, ParallelStyle]":
    """The styles of torch by the words of transformers' plans."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    return {
        "colwise": ColwiseParallel(),
        "rowwise": RowwiseParallel(),
        "colwise_gather_output": ColwiseParallel(output_layouts=Replicate()),
        "rowwise_split_input": RowwiseParallel(input_layouts=Replicate()),
        "embedding_rowwise": RowwiseParallel(input_layouts=Replicate()),
    }


def carried(module: nn.Module) -> dict[str, str]:
    """What the plans of models of transformers inside a module say in words that are styles of torch's.

    Modules that stand beside one with another word are left whole, as the heads of attention where a norm
    of queries sums its gradients by a word of transformers' own. So are modules that share a weight.
    """
    plan, words = dict(_of_transformers(module)), by_word()
    odd = {name.rpartition(".")[0] for name, word in plan.items() if word not in words}
    shared = _sharing(module)
    return {
        name: word
        for name, word in plan.items()
        if name.rpartition(".")[0] not in odd and (there := matched(module, name)) and not there & shared
    }


def _of_transformers(module: nn.Module) -> Iterator[tuple[str, str]]:
    """The words by patterns of names, of every model of transformers that is not inside of another."""
    outer = list[str]()
    for path, inner in module.named_modules():
        plan: Any = getattr(getattr(inner, "config", None), "base_model_tp_plan", None)
        prefix = getattr(inner, "base_model_prefix", None)
        if not isinstance(plan, dict) or prefix is None or any(path.startswith(f"{one}.") for one in outer):
            continue
        if "" in outer:
            return
        outer.append(path)
        base = [prefix] if hasattr(inner, prefix) else []
        for name, word in plan.items():
            yield ".".join(filter(None, (path, *base, name))), word
        for name, word in (getattr(type(inner), "_tp_plan", None) or {}).items():
            yield ".".join(filter(None, (path, name))), word


def _sharing(module: nn.Module) -> set[str]:
    """The names of the modules that share a parameter with another."""
    owners: dict[nn.Parameter, set[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        owners.setdefault(parameter, set()).add(name.rpartition(".")[0])
    return {name for names in owners.values() if len(names) > 1 for name in names}
