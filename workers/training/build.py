"""From model data to a `torch.nn.Module`.

It is made of torch's own layers where torch has them, because wrappers know those.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.draws import Floats
from difftest.cases.layers import walk
from difftest.cases.model import Model
from workers.training.layers import Plan, module_of
from workers.training.modules import Adjusted, Chain, Opaque, Program


def build(model: Model, weights: Mapping[str, Floats], plan: Plan) -> nn.Module:
    """The module on the host with `weights` in their dtypes; parameter names are `model.parameters()`'s.

    A program's `weights` include its buffers, and its tensors have dtypes of their own. A module of the
    user's has weights of its own.
    """
    modules = [module_of(layer, str(index), plan) for index, layer in enumerate(model.layers)]
    if model.own:
        # The user's module, which has its dtypes, weights and ties already
        module = Opaque(*modules)
        module.names, module.takes_dict = model.own.inputs, model.own.takes_dict
        return module
    kind = Adjusted if plan.adjusted else Chain
    chain: nn.Module = Program(modules) if model.is_program else kind(*modules).to(plan.dtypes.own)
    tie(chain, model)
    chain.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()}, strict=False)
    return chain


def tie(module: nn.Module, model: Model) -> None:
    """Shares tied weights."""
    for path, layer in walk(model.layers):
        for name, source in layer.borrows().items():
            owner, _, own = f"{path}.{name}".rpartition(".")
            module.get_submodule(owner).register_parameter(own, module.get_parameter(source))


def tie_again(module: nn.Module, case: Case) -> None:
    """Shares tied weights after parameters were moved or replaced, which can give every module its own.

    A program that ties its weights before that relies on them to stay tied.
    """
    if not case.forms.tied_before:
        tie(module, case.model)


def moved(module: nn.Module, device: Any, case: Case) -> nn.Module:  # noqa: ANN401  of any framework
    """The module on a device. XLA breaks the ties between weights on the way, so they are tied again."""
    module = module.to(device)
    tie_again(module, case)
    return module


def held(module: nn.Module, name: str) -> Tensor:
    """The parameter or the buffer of this full name."""
    path, _, own = name.rpartition(".")
    tensor: Tensor = getattr(module.get_submodule(path), own)
    return tensor


def replace(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Puts `tensor` in the place of the parameter or the buffer of this full name."""
    path, _, own = name.rpartition(".")
    holder, before = module.get_submodule(path), held(module, name)
    if isinstance(before, nn.Parameter):
        holder.register_parameter(own, nn.Parameter(tensor, requires_grad=before.requires_grad))
    else:
        kept = own not in holder._non_persistent_buffers_set  # noqa: SLF001  no public name
        holder.register_buffer(own, tensor, persistent=kept)
