"""Options of a case that only some backends have: how replicas are kept equal, and how a run starts.

They are part of the case because training must give the same result whatever they are. A backend without such
an option ignores it.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias, TypeVar

import msgspec

from difftest.cases import features, schema

Act: TypeAlias = Literal["spmd", "mesh", "device", "seed"]
ACTS: tuple[Act, ...] = ("spmd", "mesh", "device", "seed")
SdpaKernel: TypeAlias = Literal["flash", "efficient", "cudnn", "math"]
"""The kernels of torch's `scaled_dot_product_attention`."""
TORCH_KERNELS: dict[SdpaKernel, str] = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
"""The kernels by the names of torch's enum `SDPBackend`."""
USUAL_KERNELS: tuple[SdpaKernel, ...] = ("flash", "efficient", "math")
"""In the order in which they are tried; the last takes all tensors."""
MOST_BUCKET_MEGABYTES = 64.0


class Replication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of `DistributedDataParallel`, by its own names.

    `bucket_cap_mb` is in MiB; None is torch's default. `no_sync`: only the last accumulation part is reduced.
    `own_weights`: ranks other than 0 start with weights of their own, which the wrapper must replace by rank
    0's. `ValueError` if a number is out of range, or two options contradict each other.
    """

    gradient_as_bucket_view: bool = False
    find_unused_parameters: bool = False
    static_graph: bool = False
    broadcast_buffers: bool = True
    bucket_cap_mb: float | None = None
    no_sync: bool = True
    own_weights: bool = False

    def __post_init__(self) -> None:
        if self.bucket_cap_mb is not None and not 0.0 < self.bucket_cap_mb <= MOST_BUCKET_MEGABYTES:
            msg = f"bucket_cap_mb is {self.bucket_cap_mb}; allowed: above 0, to {MOST_BUCKET_MEGABYTES:g}"
            raise ValueError(msg)
        if self.static_graph and self.find_unused_parameters:
            msg = "static_graph and find_unused_parameters are both set; a static graph has found them"
            raise ValueError(msg)


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an SPMD program starts on XLA.

    `acts` is the order of its first steps: SPMD is enabled, the mesh is made, the device is used, the seed is
    set. `marked`: parameters are annotated `after` or `before` they are moved to the device. `replicated`:
    whether parameters that are whole on every device are annotated too; SPMD replicates parameters without an
    annotation. `asynchronous`: the PJRT client runs computations asynchronously. `accumulation`: parts of a
    batch are accumulated in a `loop` of backward passes, or by torch_xla's own API, which makes a `scan` of
    them. `ValueError` if `acts` lacks or repeats one.
    """

    acts: tuple[Act, ...] = ACTS
    marked: Literal["after", "before"] = "after"
    replicated: Literal["marked", "unmarked"] = "marked"
    asynchronous: bool = True
    accumulation: Literal["loop", "scan"] = "loop"

    def __post_init__(self) -> None:
        if sorted(self.acts) != sorted(ACTS):
            msg = f"acts are {', '.join(self.acts)}; allowed: {', '.join(ACTS)} in any order, each once"
            raise ValueError(msg)


class Spelling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The forms in which users write a program, where the workers by default take one that always works.

    A form that has nothing to change in a case leaves it as it is. The oracle takes none: it defines what the
    program means.

    * `pin_layout`: torch_xla's collectives pin layouts, as is their default.
    * `torch_checkpoint`: `torch.utils.checkpoint` on XLA too, which has a checkpoint function of its own.
    * `torch_loss`: `mse_loss` and `cross_entropy`, instead of primitive operators.
    * `unequal`: a mask by `!=`, instead of the negation of `==`.
    * `torch_dropout`: `dropout` with the probability 0 too. Its mask is random, so others cannot be compared.
    * `tied_before`: weights are tied when the model is built, and not again after it was placed.
    * `optimizer_before`: the optimizer is made before the model is placed.
    * `integers`: a collective is one of int32; only in the regimes `WHOLE`.
    * `host_backward`: a backward pass on the host comes before everything else.
    * `no_broadcast`: replicas rely on equal weights from the start, and none are sent.
    * `verified_shapes`: `DistributedDataParallel` verifies the shapes of all ranks' parameters.
    * `changing_number`: the loss is multiplied and divided by a Python number that differs in every step.
    * `unoptimised`: XLA's backend compiles as cheaply as it can (`difftest.cases.flags`), which takes a fifth
      to a half of the time. Nobody writes that, but the result has to be the same.
    * `no_implicit_replication`: DTensors without torch's context of that name, where a user's model mixes no
      tensors of its own with them.
    * `bare_to_local`: activations leave a DTensor by `to_local()`, without the placements of their gradients.
    * `local_map`: where activations leave a DTensor and come back, it is by torch's `local_map`.
    * `inference`: a program of operators none of whose tensors requires a gradient runs in `inference_mode`.
      Below it torch dispatches operators that it otherwise replaces by others, such as `square`.
    * `strided`: operands of a program that two mesh axes cut along one dim are cut in the reverse of mesh
      order (`difftest.cases.reversed_cuts`) where they are DTensors. FSDP over tensor parallelism does that.
    """

    pin_layout: bool = False
    torch_checkpoint: bool = False
    torch_loss: bool = False
    unequal: bool = False
    torch_dropout: bool = False
    tied_before: bool = False
    optimizer_before: bool = False
    integers: bool = False
    host_backward: bool = False
    no_broadcast: bool = False
    verified_shapes: bool = False
    changing_number: bool = False
    no_implicit_replication: bool = False
    inference: bool = False
    unoptimised: bool = False
    bare_to_local: bool = False
    local_map: bool = False
    strided: bool = False


FeatureOption: TypeAlias = bool | int | float | str


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A feature of training: what a program does in its loop beside forward, backward and update.

    `name` is that of a file in `difftest.cases.features`, which declares its options. A file of the same name
    in `workers.training.features` says what the feature must be equal to; the oracle does that instead.
    """

    name: str
    options: dict[str, FeatureOption] = {}

    def require_declared(self) -> None:
        """`UsageError` unless there is such a feature, and the options are those that it declares."""
        schema.require(f"feature {self.name}", self.options, features.load(self.name).Options)


WHOLE = ("exact", "ties")
"""The regimes whose inputs are whole numbers."""

Options = TypeVar("Options", bound=msgspec.Struct)


def field_resets(options: Options) -> Iterator[tuple[str, Options]]:
    """Every option that is not at its default, as `name=value`, and the options with only that one reset."""
    defaults = type(options)()
    for name in options.__struct_fields__:
        value, default = getattr(options, name), getattr(defaults, name)
        if value != default:
            yield f"{name}={value}", msgspec.structs.replace(options, **{name: default})
