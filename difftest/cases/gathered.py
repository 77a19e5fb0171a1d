"""Which modules `fully_shard` gathers by themselves: those with a wrapper of their own inside the model's."""

from difftest.cases.case import Case
from difftest.cases.layers import walk


def gathered_alone(case: Case) -> list[str]:
    """Their paths, innermost first, as the case's `sharding` says.

    None of them shares a parameter: FSDP2 requires modules that do in one group, which is the whole model's.
    """
    layers = list(walk(case.model.layers))
    tied = [path for path, layer in layers if layer.borrows()]
    tied += [name.rpartition(".")[0] for _, layer in layers for name in layer.borrows().values()]
    match case.sharded_by.wrapped:
        case "blocks":
            wrapped = [path for path, layer in layers if layer.held is not None]
        case "layers":
            wrapped = [path for path, layer in layers if layer.shapes() and layer.held is None]
        case "whole":
            wrapped = []
    return [path for path in reversed(wrapped) if not any(f"{one}.".startswith(f"{path}.") for one in tied)]
