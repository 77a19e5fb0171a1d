"""How a wrapper is told to shard: `fully_shard`'s options, `parallelize_module`'s regions, rows for experts.

They are part of the case because training must give the same result whatever they are. A backend without such
an option ignores it.
"""

from typing import Literal, TypeAlias

import msgspec

from difftest.cases import schema

MOST_DIVISOR = 1024.0
MOST_RESHARDED = 64

Synced: TypeAlias = Literal["last", "every", "scattered"]
Wrapped: TypeAlias = Literal["blocks", "layers", "whole", "ties", "groups"]
Prefetched: TypeAlias = Literal["forward", "backward", "both"]


class Sharding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of `fully_shard`, by its own names where it has some.

    * `reshard_after_forward`: whether parameters are sharded again between forward and backward. A number
      shards them over so many ranks meanwhile. None is torch's default.
    * `gradient_divide_factor`: what gradients are divided by, as `set_gradient_divide_factor` says. None is
      the number of ranks that have rows of their own.
    * `summed`: what reductions do is to add up, and gradients are divided apart from that, as
      `set_force_sum_reduction_for_comms` says. gloo has no reduction that divides by any number.
    * `synced`: the accumulation parts whose gradients are reduced. They are the `last` alone, or `every` one;
      `scattered`: every one is scattered, and the last is reduced over replicas too.
    * `wrapped`: the modules that are gathered by themselves: residual `blocks`, all `layers`, or none, so
      that the `whole` model is gathered at once. `ties`: all layers, those too that share a weight.
      `groups`: all layers, of which the first and the last are gathered together.
    * `offload`: parameters and gradients are kept on the host.
    * `flattened`: the mesh has two axes in place of the one that shards, as those of shards and of a
      sequence's pieces, and `DeviceMesh._flatten` makes one of them.
    * `by_older_name`: the factor is set by `set_reduce_scatter_divide_factor`, which is deprecated.
    * `prefetched`: the module that comes next in the `forward` or the `backward` pass, or in `both`, is
      gathered ahead, by `set_modules_to_forward_prefetch` and its like.
    * `kept_between`: parameters stay gathered from one accumulation part to the next
      (`set_reshard_after_backward`).
    * `kept_in_step`: parameters stay gathered until `reshard()` is called behind the backward passes, as a
      loss that is differentiated twice needs them (`set_reshard_after_backward`).
    * `embeddings_resting`: an embedding that is gathered by itself is not gathered in the backward pass
      (`set_unshard_in_backward`), which needs no weight of it.
    * `second_mesh`: behind tensor parallelism and before it shards, the program makes another mesh of the
      same ranks, with an axis `tp` of the same name, as trainers do for experts.
    * `ignored`: a parameter that the wrapper leaves as it is (`ignored_params`). The program averages its
      gradients.

    `ValueError` if a number is out of range.
    """

    reshard_after_forward: bool | int | None = None
    gradient_divide_factor: float | None = None
    summed: bool = False
    synced: Synced = "last"
    wrapped: Wrapped = "blocks"
    offload: bool = False
    flattened: bool = False
    by_older_name: bool = False
    prefetched: Prefetched | None = None
    kept_between: bool = False
    kept_in_step: bool = False
    embeddings_resting: bool = False
    second_mesh: bool = False
    ignored: schema.TensorName | None = None

    def __post_init__(self) -> None:
        over = self.reshard_after_forward
        if over is not None and not isinstance(over, bool) and not 1 <= over <= MOST_RESHARDED:
            msg = f"reshard_after_forward is {over}; allowed: true, false, or 1 to {MOST_RESHARDED} ranks"
            raise ValueError(msg)
        factor = self.gradient_divide_factor
        if factor is not None and not 0.0 < factor <= MOST_DIVISOR:
            msg = f"gradient_divide_factor is {factor}; allowed: above 0, to {MOST_DIVISOR:g}"
            raise ValueError(msg)


LossForm: TypeAlias = Literal["whole", "rows", "positions", "images", "log_softmax", "nll_loss"]


class Regions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What tensor parallelism cuts beside parameters.

    * `sequence`: activations between layers are cut along the sequence, and norms work on pieces of it.
    * `prepared`: attention gathers what it is given once, where each of its projections would do so.
    * `loss`: where the loss is not of the `whole` output, the classes of the output stay apart, and
      cross-entropy is computed of the pieces. Its form is one of all `rows` together, of `positions` (classes
      are the second of three dims), of `images` (the second of four), or `nll_loss` of a `log_softmax`;
      `log_softmax`: a product of that with the targets' rows of the identity.
    * `mean`: the loss is torch's mean times the share of the targets; otherwise its sum.
    * `weighted`: classes have weights, as `workers.training.class_weights` says.
    """

    sequence: bool = False
    prepared: bool = False
    loss: LossForm = "whole"
    mean: bool = False
    weighted: bool = False


Exchange: TypeAlias = Literal["functional", "nn", "padded", "gathered", "whole"]
Product: TypeAlias = Literal["loop", "grouped", "batched"]


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How rows reach their experts, and are multiplied there.

    * `exchange`: between ranks. Each sends the rows of another one's experts by `all_to_all_single`, that of
      torch's `functional` collectives or of `torch.distributed.nn`, in parts as large as they are; `padded`:
      in equal parts. `gathered`: every rank has all rows, and the results are reduced and scattered. `whole`:
      so too, and what goes to experts of other ranks stays there, behind a rank's own, with weights of zero.
    * `product`: on a rank, one expert after another in a `loop`; `grouped`: by `torch._grouped_mm`, where the
      device has a kernel for it; `batched`: with as many rows, many of them empty, for each expert.
    * `form`: where nothing is between ranks, because a compiler cuts the whole. Rows are moved by products
      with a `one_hot` matrix, or by a `gather`.
    """

    exchange: Exchange = "functional"
    product: Product = "loop"
    form: Literal["one_hot", "gather"] = "one_hot"
