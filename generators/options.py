"""Choices that only some backends have: `Replication`, `Start`, the kernel for attention, and `Spelling`.

The one idea: nearly always every option but the usual forms is at its default, so that a case has no options
that its finding does not depend on. Otherwise mostly a single option is not.
"""

import functools
import random
from collections.abc import Callable, Mapping
from typing import get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Layout, Replicate
from difftest.cases.model import Model
from difftest.cases.options import ACTS, WHOLE, Act, Replication, SdpaKernel, Start
from generators.chances import always, equally, mixed, sometimes, weighted

SMALL_BUCKETS_MEGABYTES = (2.0**-16, 2.0**-12)
"""16 and 256 bytes: every parameter has a bucket of its own, or shares one with a few others."""

SINGLE: tuple[tuple[int, Replication], ...] = (
    (5, Replication(gradient_as_bucket_view=True)),
    (2, Replication(own_weights=True)),
    (1, Replication(find_unused_parameters=True)),
    (1, Replication(static_graph=True)),
    (1, Replication(broadcast_buffers=False)),
    *((1, Replication(bucket_cap_mb=cap)) for cap in SMALL_BUCKETS_MEGABYTES),
)


def replications(*, layout: Layout, accumulation: int) -> SearchStrategy[Replication]:
    """The options of replicas: the defaults where `layout` shards a parameter.

    In 3 of 10 other cases one option is not at its default, and in 1 of 10 all options are drawn.
    """
    if not _is_whole(layout):
        return always(Replication())
    return mixed(
        (6, always(Replication())),
        (3, single_replications(accumulation=accumulation)),
        (1, any_replications(accumulation=accumulation)),
    )


@functools.cache
def single_replications(*, accumulation: int) -> SearchStrategy[Replication]:
    """One option that is not at its default; with accumulation a static graph needs a second one."""
    synced = ((2, Replication(no_sync=False)),) if accumulation > 1 else ()
    return weighted(*SINGLE, *synced).map(lambda options: _valid(options, accumulation))


@functools.cache
@st.composite
def any_replications(draw: st.DrawFn, *, accumulation: int) -> Replication:
    """Any combination of options that `DistributedDataParallel` accepts."""
    static = draw(st.booleans())
    options = Replication(
        gradient_as_bucket_view=draw(st.booleans()),
        find_unused_parameters=not static and draw(st.booleans()),
        static_graph=static,
        broadcast_buffers=draw(st.booleans()),
        bucket_cap_mb=draw(equally(None, *SMALL_BUCKETS_MEGABYTES)),
        no_sync=accumulation == 1 or draw(st.booleans()),
        own_weights=draw(st.booleans()),
    )
    return _valid(options, accumulation)


def _valid(options: Replication, accumulation: int) -> Replication:
    """The options; without `no_sync` in a static graph, because `DistributedDataParallel` refuses that."""
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
"""Orders that touch the device, set a seed, or both, before SPMD is enabled."""

LATE: tuple[tuple[Act, ...], ...] = (("mesh", "spmd", "device", "seed"), ("spmd", "seed", "device", "mesh"))
"""Other orders that do not touch the devices before SPMD is enabled."""


@functools.cache
@st.composite
def starts(draw: st.DrawFn, *, accumulation: int) -> Start:
    """How a program starts.

    In 16 of 20 cases the order is the manual's, and in 1 of 20 something is on the devices too early. In a
    quarter of the cases the other options of the start are drawn too.
    """
    acts = draw(mixed((16, always(ACTS)), (3, equally(*LATE)), (1, equally(*EARLY))))
    if not draw(sometimes(one_in=4)):
        return Start(acts=acts)
    return Start(
        acts=acts,
        marked=draw(equally("after", "before")),
        replicated=draw(equally("marked", "unmarked")),
        asynchronous=draw(st.booleans()),
        accumulation=draw(equally("loop", "scan")) if accumulation > 1 else "loop",
    )


def kernels(*, model: Model) -> SearchStrategy[SdpaKernel | msgspec.UnsetType]:
    """The kernel for `scaled_dot_product_attention`.

    The backend chooses in half of the cases with flash attention, and in all cases without it.
    """
    if not model.flash_attentions:
        return always(msgspec.UNSET)
    return mixed((4, always(msgspec.UNSET)), (4, equally(*get_args(SdpaKernel))))


def _is_whole(layout: Layout) -> bool:
    """Whether every rank holds every parameter whole."""
    return all(at == Replicate() for placements in layout.parameters.values() for at in placements)


def _leaves_dtensors(case: Case) -> bool:
    """Whether activations leave DTensors and come back."""
    layers = (layer for _, layer in walk(case.model.layers))
    return any(isinstance(layer, Redistribute) and layer.by == "to_local" for layer in layers)


CONCERNS: Mapping[str, Callable[[Case], bool]] = {
    "torch_loss": lambda _case: True,
    "optimizer_before": lambda _case: True,
    "host_backward": lambda _case: True,
    "changing_number": lambda case: case.training.steps > 1,
    "torch_checkpoint": lambda case: case.training.checkpointing,
    "unequal": lambda case: case.model.segments,
    "torch_dropout": lambda case: any(layer.kind == "dropout" for layer in case.model.masked.values()),
    "tied_before": lambda case: any(layer.borrows() for _, layer in walk(case.model.layers)),
    "integers": lambda case: (
        case.data.regime in WHOLE and any(layer.BETWEEN_RANKS for _, layer in walk(case.model.layers))
    ),
    "pin_layout": lambda case: _is_whole(case.layout),
    "no_broadcast": lambda case: _is_whole(case.layout) and not case.replication.own_weights,
    "verified_shapes": lambda case: _is_whole(case.layout),
    "unoptimised": lambda _case: True,
    "bare_to_local": _leaves_dtensors,
    "local_map": _leaves_dtensors,
}
"""The usual forms, each with whether it has something to change in a case."""

OF_PROGRAMS = ("unoptimised",)
"""The usual forms that a program of operators takes too."""

STOPS: Mapping[str, Callable[[Case], bool]] = {
    "torch_loss": lambda case: case.training.loss == "mse",
    "unequal": lambda _case: True,
    "optimizer_before": lambda _case: True,
    "host_backward": lambda _case: True,
    "torch_checkpoint": lambda _case: True,
    "tied_before": lambda _case: True,
    "verified_shapes": lambda _case: True,
    "pin_layout": lambda case: case.dtype != "float32",
    "integers": lambda case: any(
        isinstance(layer, Collective) and not layer.factor.is_integer()
        for _, layer in walk(case.model.layers)
    ),
}
"""The forms that stop a backend, or leave nothing to compare after them, each with in which cases it does."""

USUALLY, SELDOM = 1 / 2, 1 / 16
"""How often a form is taken where it concerns a case, and where it also stops a backend.

Half of the time each, `host_backward` and `optimizer_before` would leave a fourth of the cases to XLA's SPMD.
"""

SHARES: Mapping[str, float] = {"unoptimised": 15 / 16}
"""The forms that are taken more often than `USUALLY`; docs/campaigns.md has the measurement."""


def spelled(case: Case, stream: random.Random) -> Case:
    """The case with usual forms, each drawn from a `stream` that nothing else of the case is drawn from.

    A program of operators keeps its own, and takes only how it is compiled: it has neither optimizer nor loss
    function.
    """
    draws = {form: stream.random() for form in CONCERNS}
    concern = OF_PROGRAMS if case.model.is_program else CONCERNS
    forms = {form: draws[form] < _chance(form, case) for form in concern if CONCERNS[form](case)}
    return msgspec.structs.replace(case, spelling=msgspec.structs.replace(case.forms, **forms))


def _chance(form: str, case: Case) -> float:
    return SELDOM if form in STOPS and STOPS[form](case) else SHARES.get(form, USUALLY)
