"""Why no script can be written for a case on a backend."""

from msgspec import UNSET

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.own import Own
from difftest.cases.reversed_cuts import cut_in_reverse
from difftest.cases.routed import routed
from difftest.cases.twins import is_twin
from reports.reproducer import blocks, features, own
from reports.reproducer.templates import FOLDER, PROGRAMS, backends, declares

MOST_AXES_OF_STAGES = 2


def refusal(case: Case, backend: str) -> str | None:
    """The reason why no script can be written for `case` on `backend`; None if one can."""
    of_twin = is_twin(case)
    every = backends(PROGRAMS if case.model.is_program else FOLDER)
    there = tuple(name for name in every if declares(name, "of_twins") == of_twin)
    if backend not in there:
        what = "a twin on " if of_twin else ""
        return f"there is no template for {what}backend {backend!r}; there are: {', '.join(there)}"
    if cut_in_reverse(case):
        return "no template has operands that two mesh axes cut in the reverse of mesh order"
    return None if case.model.is_program else _training_refusal(case, backend)


def _training_refusal(case: Case, backend: str) -> str | None:
    if reason := _of_own(case.model.own, backend) if case.model.own else blocks.refusal(case):
        return reason
    lacks = (
        *(_without_regions, _without_stages, _without_experts, _without_gradients, _without_sharding),
        *(_without_hooks, _without_shards_of_state),
    )
    if reason := features.refusal(case) or next(filter(None, (lack(case, backend) for lack in lacks)), None):
        return reason
    if reason := _flash_attention(case, backend):
        return reason
    if case.start.accumulation != "loop" and case.training.accumulation > 1:
        return f"the case accumulates by {case.start.accumulation!r}, which no template can write yet"
    return None


def _flash_attention(case: Case, backend: str) -> str | None:
    """Why a backend's template cannot write the attention of a case, or None."""
    flash = set(case.model.flash_attentions.values())
    if flash and not declares(backend, "spells_flash_attention"):
        return "flash attention on XLA needs Pallas kernels, whose CPU interpreter is too long for a script"
    if declares(backend, "gathers_keys") and any(layer.segments or layer.bias for layer in flash):
        return f"the template of {backend} cannot write segments and biases of a piece of the sequence yet"
    if len(flash) > 1:
        return "the case has several kinds of flash attention, and the templates can write only one"
    return None


def _of_own(layer: Own, backend: str) -> str | None:
    if declares(backend, "spells_plan"):
        return "no script writes a user's plan of styles yet"
    if layer.by_rank:
        return "a script's reference has one batch; in this case every rank has one of its own"
    return own.refusal(layer)


def _without_regions(case: Case, backend: str) -> str | None:
    """Why a backend's template cannot cut the activations as the case does, or None."""
    if case.regions is UNSET or declares(backend, "spells_regions"):
        return None
    return f"the case cuts activations, which the template of {backend} cannot write"


def _without_stages(case: Case, backend: str) -> str | None:
    """Why a backend's template cannot cut the model into stages as the case does, or None."""
    cut, writes = case.staged is not None and case.world_size > 1, declares(backend, "spells_stages")
    if cut != writes:
        return f"the case has {'' if cut else 'no '}stages, which the template of {backend} cannot write"
    if not cut:
        return None
    if len(case.layout.mesh.axes) > MOST_AXES_OF_STAGES or case.layout.mesh.names[-1] in {"dp_shard", "tp"}:
        return "the template of stages wraps them in DDP over one axis, or not at all"
    if case.staged and (case.staged.beside != "nothing" or case.staged.rows_second):
        return "no template gives stages more than their inputs, or rows second"
    return "no template clips over stages" if case.training.clip_norm is not None else None


def _without_experts(case: Case, backend: str) -> str | None:
    """Why a template whose ranks exchange rows cannot write the case, or None."""
    if not declares(backend, "exchanges"):
        return None
    if case.world_size == 1 or not routed(case.model):
        return "ranks without experts exchange no rows"
    return (
        "no template clips over experts and what is beside them"
        if case.training.clip_norm is not None
        else None
    )


def _without_gradients(case: Case, _backend: str) -> str | None:
    """Why a collective has no script, or None."""
    learned = any(isinstance(layer, Collective) and layer.learned is not UNSET for layer in case.model.layers)
    return "no template writes a collective that gradients go through" if learned else None


def _without_sharding(case: Case, _backend: str) -> str | None:
    """Why FSDP has no script with the case's options, or None."""
    if case.sharded_by.ignored is not None:
        return "no template averages the gradients of a parameter that FSDP ignores"
    if case.sharded_by.kept_between and case.sharded_by.synced == "every":
        return "no template keeps parameters gathered between parts that are all reduced"
    return None


def _without_hooks(case: Case, backend: str) -> str | None:
    """Why a backend's template has no communication hook, or None."""
    if not has(case, "communication_hook") or declares(backend, "spells_hooks"):
        return None
    return f"the case has a communication hook, and the template of {backend} has no wrapper that takes one"


def _without_shards_of_state(case: Case, backend: str) -> str | None:
    """Why a backend's template has no optimizer that shards its state, or None."""
    if not has(case, "sharded_optimizer") or not declares(backend, "has_gate"):
        return None
    return f"the template of {backend} cannot write torch_xla's ZeroRedundancyOptimizer yet"
