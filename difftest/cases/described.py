"""What is known of a module of the user's before any case of it is drawn."""

import hashlib
import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from difftest.cases.case import DType
from difftest.cases.layers.own import Own
from difftest.cases.layout import Layout, Mesh

DIGEST_LENGTH = 12

MOST_NUMBERS = 21_000_000
"""The most numbers that a model trains times steps: a run leaves 25 bytes of each, at most half a GiB."""

REMARKS = ("mean_of_means", "unequal_loss", "decomposed", "left_out")
"""What is printed, and decides nothing about cases."""


class DescriptionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to describe, and the meshes for which the user's plan is asked."""

    source: str
    meshes: tuple[Mesh, ...] = ()


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The layer of the cases, and what its cases may be.

    `loss` is that of all cases; `optimizer`: whether the user brings one, and `optimizer_saved`: whether what
    its `state_dict` gives has the form of torch's. `dtypes` are those in which the
    module runs, `refused` has the reasons why it does not in others. `unused`: whether a parameter gets no
    gradient. `noise` names a module whose rounding in float32 leaves little to compare, empty where none
    does. `layouts` are those of the user's plan, by mesh; None where there is no plan.

    `mean_of_means` is how far the gradient of the mean of two halves' losses is from that of the batch, as a
    share of it, where targets are ignored. `unequal_loss`: the loss of a batch follows from those of its
    halves in no such way. `decomposed` are the operators without a float64 kernel, which the reference
    computes in other ones. `left_out` are the tensors that the module returns and keeps and that are not
    compared.

    `steps` is how many every case has, None for a few. `learnable`: every step gets the same batch, so that
    training can solve the task.
    """

    layer: Own
    loss: Literal["mse", "cross_entropy", "own"]
    optimizer: bool = False
    optimizer_saved: bool = True
    dtypes: tuple[DType, ...] = ("float32",)
    refused: Mapping[str, str] = {}
    unused: bool = False
    noise: str = ""
    layouts: tuple[Layout, ...] | None = None
    mean_of_means: float = 0.0
    unequal_loss: bool = False
    decomposed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    steps: int | None = None
    learnable: bool = False

    @property
    def most_steps(self) -> int:
        """How many steps a run may have so that what it leaves of all parameters and gradients has room."""
        numbers = sum(math.prod(shape) for shape in self.layer.parameters.values())
        return max(1, MOST_NUMBERS // max(1, numbers))

    @property
    def digest(self) -> str:
        """A digest of the source and of everything that decides its cases."""
        plain = msgspec.to_builtins(msgspec.structs.replace(self, refused={}, noise=""))
        decisive = {name: value for name, value in plain.items() if name not in REMARKS}
        return hashlib.sha256(msgspec.json.encode(decisive, order="sorted")).hexdigest()[:DIGEST_LENGTH]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that builds the module answers: the description, or why there is none."""

    description: Description | None = None
    error: str = ""
