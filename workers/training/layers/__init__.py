"""What layers compute: a file for each kind that is no module of torch by itself, which makes its module."""

from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch import nn

from difftest.cases.layer import Layer
from difftest.cases.options import Spelling
from difftest.cases.wrapping import Dispatch
from difftest.ground import plugins
from workers.training.dtypes import Dtypes
from workers.training.operators import Operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What layers are built from beside their own data.

    `dtypes`: the types of a program's tensors. `checkpointing`: residual blocks are computed again in the
    backward pass. `spelling`: the forms to take. `dispatch`: how rows reach experts. `adjusted`: the batch
    has what the layers of a pipeline are given beside their inputs. `seed` is the case's; tensors of a user's
    module are rounded to `rounded`, the case's dtype.
    """

    sequence: int
    operators: Operators
    dtypes: Dtypes
    checkpointing: bool
    spelling: Spelling
    dispatch: Dispatch = field(default_factory=Dispatch)
    adjusted: bool = False
    seed: int = 0
    rounded: torch.dtype = torch.float32


class BuiltKind(Protocol):
    """What a module in this folder offers."""

    def module(self, layer: Any, path: str, plan: Plan) -> nn.Module:  # noqa: ANN401  a layer of its own kind
        """The torch module of the layer at `path`, on the host; parameter names are `layer.shapes()`'s.

        It maps (batch, [sequence,] width) to the same with another width. A `workers.training.modules.Reader`
        is given the extras too.
        """


def module_of(layer: Layer, path: str, plan: Plan) -> nn.Module:
    """The torch module of any layer."""
    if made := layer.of_torch():
        module: nn.Module = getattr(nn, made.name)(*made.arguments, **made.options)
        return module
    return cast("BuiltKind", plugins.load(__name__, layer.kind)).module(layer, path, plan)
