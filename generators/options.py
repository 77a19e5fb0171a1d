"""Choices only some backends have: how replicas are kept alike (`Replication`), how a run starts (`Start`), which kernel attends.

The one idea: nearly always everything is at its default, so that what a finding does not depend on is not in its case; else mostly one
option alone is not.
"""

from typing import get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.layout import Layout, Replicate
from difftest.cases.model import Model
from difftest.cases.options import ACTS, Act, Replication, SdpaKernel, Start
from generators.chances import mixed, sometimes, weighted

SMALL_BUCKETS_MEGABYTES = (2.0**-16, 2.0**-12)
"""16 bytes and 256: every parameter a bucket of its own, or a few together."""

SINGLE: tuple[tuple[int, Replication], ...] = (
    (5, Replication(gradient_as_bucket_view=True)),
    (2, Replication(own_weights=True)),
    (1, Replication(find_unused_parameters=True)),
    (1, Replication(static_graph=True)),
    (1, Replication(broadcast_buffers=False)),
    *((1, Replication(bucket_cap_mb=cap)) for cap in SMALL_BUCKETS_MEGABYTES),
)


def replications(*, layout: Layout, accumulation: int) -> SearchStrategy[Replication]:
    """The options of replicas: the defaults where `layout` shards a parameter, else something else in a third of the cases."""
    if any(placement != Replicate() for placements in layout.parameters.values() for placement in placements):
        return st.just(Replication())
    return mixed(
        (6, st.just(Replication())),
        (3, single_replications(accumulation=accumulation)),
        (1, any_replications(accumulation=accumulation)),
    )


def single_replications(*, accumulation: int) -> SearchStrategy[Replication]:
    """One option not at its default (a static graph needs a second where parts are accumulated)."""
    synced = ((2, Replication(no_sync=False)),) if accumulation > 1 else ()
    return weighted(*SINGLE, *synced).map(lambda options: _valid(options, accumulation))


@st.composite
def any_replications(draw: st.DrawFn, *, accumulation: int) -> Replication:
    """Any options that `DistributedDataParallel` takes together."""
    static = draw(st.booleans())
    options = Replication(
        gradient_as_bucket_view=draw(st.booleans()),
        find_unused_parameters=not static and draw(st.booleans()),
        static_graph=static,
        broadcast_buffers=draw(st.booleans()),
        bucket_cap_mb=draw(st.sampled_from((None, *SMALL_BUCKETS_MEGABYTES))),
        no_sync=accumulation == 1 or draw(st.booleans()),
        own_weights=draw(st.booleans()),
    )
    return _valid(options, accumulation)


def _valid(options: Replication, accumulation: int) -> Replication:
    """`DistributedDataParallel` takes no static graph whose first backward is under `no_sync`."""
    return (
        msgspec.structs.replace(options, no_sync=False)
        if options.static_graph and accumulation > 1
        else options
    )


EARLY: tuple[tuple[Act, ...], ...] = (
    ("device", "spmd", "mesh", "seed"),
    ("seed", "spmd", "mesh", "device"),
    ("mesh", "device", "seed", "spmd"),
)
"""Before SPMD is enabled, the device is touched, a seed is set, or both."""

LATE: tuple[tuple[Act, ...], ...] = (("mesh", "spmd", "device", "seed"), ("spmd", "seed", "device", "mesh"))
"""Other orders that leave the devices alone until SPMD is enabled."""


@st.composite
def starts(draw: st.DrawFn, *, accumulation: int) -> Start:
    """How a program starts: as the manual has it in two thirds of the cases, and with something on the devices too early in one of 20."""
    acts = draw(mixed((16, st.just(ACTS)), (3, st.sampled_from(LATE)), (1, st.sampled_from(EARLY))))
    if not draw(sometimes(one_in=4)):
        return Start(acts=acts)
    return Start(
        acts=acts,
        marked=draw(st.sampled_from(("after", "before"))),
        replicated=draw(st.sampled_from(("marked", "unmarked"))),
        asynchronous=draw(st.booleans()),
        accumulation=draw(st.sampled_from(("loop", "scan"))) if accumulation > 1 else "loop",
    )


def kernels(*, model: Model) -> SearchStrategy[SdpaKernel | msgspec.UnsetType]:
    """The kernel for `scaled_dot_product_attention`: the backend's choice in half of the cases with flash attention, and in all others."""
    if not model.flash_attentions:
        return st.just(msgspec.UNSET)
    return mixed((4, st.just(msgspec.UNSET)), (4, st.sampled_from(get_args(SdpaKernel))))
