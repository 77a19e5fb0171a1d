"""From model data to a `torch.nn.Module`.

It is made of torch's own layers where torch has them, because wrappers know those.
"""

from collections.abc import Mapping

import torch
from torch import nn

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.model import Model
from difftest.cases.numbers import Floats
from workers.training.layers import Plan, module_of
from workers.training.modules import Chain


def build(model: Model, weights: Mapping[str, Floats], dtype: torch.dtype, plan: Plan) -> nn.Module:
    """The module on the host with `weights` in `dtype`; parameter names are `model.parameters()`'s."""
    chain = Chain(*(module_of(layer, str(index), plan) for index, layer in enumerate(model.layers)))
    tie(chain, model)
    chain = chain.to(dtype)
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
