"""Faults of public reports: each entry knows its fault, and not what stands beside it in the same cases."""

import pytest
from msgspec.structs import replace
from samples import a_case
from sharded_cases import S0, R
from shown_operators import TODAY

from difftest.cases.case import Case, Training
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layers.residual import Residual
from difftest.cases.options import Feature, FeatureOption, Spelling
from difftest.cases.pipelining import SINGLE, Pipeline, Schedule
from difftest.cases.wrapping import LossForm, Regions, Sharding
from difftest.findings.ledger import read_ledger
from difftest.judge.damage import COUNTED, NEGATED, ZERO
from difftest.judge.divergence import Divergence
from difftest.judge.facts import FailureFacts, NumbersFacts
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.evidence import DECIDED_BY

WRONG = NumbersFacts(differing=8, elements=8, greatest=0.5, scale=1.0, floor=1e-7)
SHARD = (("dp_shard", 2),)
GROUPS = (("dp_replicate", 2), ("dp_shard", 2))
ONE_SHARD = (("dp_shard", 2), ("ep", 1))
PLAIN = Linear(inputs=4, outputs=4)
SIZES = "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1"
METADATA = "Attribute '_input_metadata' is invalid for this instance of _C._FunctionBase. Accessing this"
TIES = "sharding.wrapped=ties"
SHARED = "Parameter '1.weight' is shared with a parameter already managed by another FSDP group. For"
MAPPED = "spelling.local_map=True"
ZERO_BUBBLE = "pipeline.schedule=InterleavedZeroBubble"
OUTSIDE = "Global rank 0 is not part of group <torch.distributed.distributed_c10d.ProcessGroup object>"
NO_DEVICE = "no message; raised by: assert device is not None"
TIED = (Embedding(vocabulary=6, width=4), Linear(inputs=4, outputs=6, bias=False, tied=True))


def featured(name: str, mesh: tuple[tuple[str, int], ...] = SHARD, **options: FeatureOption) -> Case:
    case = a_case(mesh=mesh, path="wrappers", training=Training(steps=2, accumulation=2))
    return replace(case, features=(Feature(name=name, options=options),))


ADAFACTOR = featured("optimizer", kind="adafactor", form="loop", rate=2.0**-7)
ADAGRAD = featured("optimizer", kind="adagrad", form="loop", rate=2.0**-7)
EACH = featured("forwards_first", (("dp", 2),), backward="each")
WRAPPED_APART = a_case(TIED, mesh=SHARD, sequence=2, sharding=Sharding(wrapped="ties"))
WRAPPED_OVER_TP = a_case(TIED, mesh=(*SHARD, ("tp", 2)), sequence=2, sharding=Sharding(wrapped="ties"))
SENT = featured("state_dict_options", step=1, form="sent")
IGNORED = a_case(mesh=SHARD, sharding=Sharding(ignored="0.bias"), training=Training(clip_norm=1.0))


def joined(*names: str) -> Case:
    """Replicas with a sharded optimizer, with more batches on one rank than on the other, or with both."""
    options: dict[str, dict[str, FeatureOption]] = {
        "sharded_optimizer": {},
        "uneven_inputs": {"batches": 1, "ranks": 1, "first": True, "shrinking": False},
    }
    features = tuple(Feature(name=name, options=options[name]) for name in names)
    return replace(a_case(path="replicated"), features=features)


def orthogonal(*, nesterov: bool) -> Case:
    """Bfloat16 parameters in shards, trained by Muon."""
    return replace(featured("muon", nesterov=nesterov, rate=2.0**-5), path="shards", dtype="bfloat16")


def leaving(rows: int = 5, by: str = "to_local", **forms: bool) -> Case:
    """Activations that leave DTensors between two layers, in rows over two ranks."""
    moved = Redistribute(width=4, dims=(None,), by=by)  # type: ignore[arg-type]
    case = a_case((PLAIN, moved, PLAIN), spelling=Spelling(**forms))
    return replace(case, data=replace(case.data, batch=rows))


def learned(*mesh: tuple[str, int], **fields: object) -> Case:
    """A collective that gradients go through, between two layers; over the first axis of `mesh`."""
    axes = mesh or (("dp", 2),)
    shape = tuple(size for _, size in axes)
    given = {"learned": "nn", "width": 4, **fields}
    between = Collective(mesh=shape, **given)  # type: ignore[arg-type]
    layers = (Linear(inputs=3, outputs=between.width), between, Linear(inputs=between.outputs, outputs=2))
    return a_case(layers, mesh=axes, batch=(S0,) * len(axes), path="learned_collectives")


def listed(**fields: object) -> Case:
    """As `learned`, on the path of lists and uneven parts."""
    return replace(learned(**fields), path="listed_collectives")


def extreme_of_replicas(reduction: str) -> Case:
    """The greatest or the least of two replicas, each with one shard, between two layers."""
    case = learned(("dp_replicate", 2), ("dp_shard", 1), operation="all_reduce", reduction=reduction)
    return replace(case, path="listed_collectives")


def strided(operation: str) -> Case:
    """A collective of tensors with strides, and a layer behind it."""
    first = Collective(operation=operation, width=4, mesh=(2,), memory="strided")  # type: ignore[arg-type]
    layers = (first, Linear(inputs=first.outputs, outputs=2))
    return a_case(layers, mesh=(("dp", 2),), batch=(S0,), path="collective_layouts")


def staged(schedule: Schedule, *features: Feature) -> Case:
    """Four layers in stages over two ranks."""
    case = a_case((PLAIN,) * 4, mesh=(("pp", 2),), batch=(R,), path="pipelines")
    return replace(case, pipeline=in_stages(schedule), features=features)


def in_shards(schedule: Schedule = "InterleavedZeroBubble") -> Case:
    """Stages with a residual block, sharded over a second axis."""
    layers = (PLAIN, Residual(layers=(PLAIN,)), PLAIN, PLAIN)
    case = a_case(layers, mesh=(("pp", 2), ("dp_shard", 2)), batch=(R, S0), path="pipelines")
    return replace(case, pipeline=in_stages(schedule))


def in_stages(schedule: Schedule) -> Pipeline:
    return Pipeline(schedule=schedule, cuts=(2,) if schedule in SINGLE else (1, 2, 3), microbatches=4)


def halves(outputs: int) -> Feature:
    return Feature(name="own_function", options={"outputs": outputs})


def of_classes(outputs: int, loss: LossForm = "log_softmax") -> Case:
    """A loss of classes that four ranks share."""
    case = a_case((Linear(inputs=4, outputs=outputs, bias=False),), mesh=(("tp", 4),), batch=(R,))
    cut = replace(case.layout, parameters={"0.weight": (S0,)})
    return replace(case, path="regions", layout=cut, regions=Regions(loss=loss))


def wrong(
    backend: str,
    check: str = "gradients",
    stage: Stage = Stage.BACKWARD,
    tensor: str = "0.weight",
    nature: str = "",
) -> Divergence:
    """Wrong numbers."""
    return Divergence(
        backend=backend,
        side=backend.partition("_")[0],
        path="",
        check=check,
        symptom=Symptom.MISMATCH,
        stage=stage,
        tensor=tensor,
        nature=nature,
        facts=WRONG,
    )


def infinite(backend: str) -> Divergence:
    """Values that are not finite."""
    shown = wrong(backend, "finite", Stage.FORWARD, "output")
    return replace(shown, symptom=Symptom.NONFINITE)


def updated(backend: str, **fields: str) -> Divergence:
    return wrong(backend, "parameters", Stage.UPDATE, **fields)


def failed(
    backend: str, message: str, kind: str = "RuntimeError", stage: Stage = Stage.BACKWARD
) -> Divergence:
    """An exception."""
    shown = wrong(backend, "completion", stage, tensor="")
    facts = FailureFacts(kind=kind, message=message, frame="")
    return replace(shown, symptom=Symptom.EXCEPTION, cause="a cause", facts=facts)


def hung(backend: str, stage: Stage = Stage.FORWARD) -> Divergence:
    """A run that made no progress any more."""
    shown = failed(backend, "not finished after 60 s without progress", "deadline", stage)
    return replace(shown, symptom=Symptom.HANG)


def known_as(shown: Divergence, case: Case, option: str) -> str:
    """The name of the known fault, or nothing."""
    evidence = {DECIDED_BY: option} if option else {}
    entry = read_ledger().entry(shown, case, TODAY, evidence)
    return entry.reason if entry else ""


@pytest.mark.parametrize(
    ("shown", "case", "option", "reason"),
    [
        (updated("torch_fsdp"), ADAFACTOR, "feature.optimizer", "Adafactor"),
        (updated("torch_tp"), ADAFACTOR, "feature.optimizer", "Adafactor"),
        (updated("tpu_dtensor"), ADAFACTOR, "feature.optimizer", "Adafactor"),
        (wrong("torch_fsdp"), WRAPPED_APART, TIES, "breaks the tie"),
        (wrong("torch_compile_fsdp"), WRAPPED_APART, TIES, "breaks the tie"),
        (wrong("torch_tp"), WRAPPED_OVER_TP, TIES, "breaks the tie"),
        (failed("torch_tp", SHARED, "ValueError"), WRAPPED_OVER_TP, "", "breaks the tie"),
        (hung("torch_tp"), of_classes(5), "", "none of the classes"),
        (hung("torch_dtensor"), of_classes(3), "", "none of the classes"),
        (wrong("torch_ddp"), EACH, "feature.forwards_first", "two backward passes are not reduced"),
        (wrong("torch_ddp", "replicas"), EACH, "feature.forwards_first", "second of two backward passes"),
        (wrong("torch_dtensor", "loss", Stage.FORWARD), leaving(local_map=True), MAPPED, "`local_map`"),
        (failed("torch_dtensor", "sizes"), leaving(1, local_map=True), MAPPED, "`local_map`"),
        (
            wrong("torch_dtensor", nature=COUNTED),
            leaving(4, bare_to_local=True),
            "spelling.bare_to_local=True",
            "behind `to_local`",
        ),
        (wrong("torch_ddp", nature=COUNTED), learned(operation="reduce", reduction="avg"), "", "of a mean"),
        (wrong("torch_ddp"), learned(operation="gather"), "", "a gradient with strides"),
        (
            wrong("torch_compile", nature=ZERO),
            learned(operation="all_gather", learned="functional"),
            "",
            "functional collectives",
        ),
        (
            failed("torch_ddp", OUTSIDE, "ValueError"),
            learned(*GROUPS, operation="all_gather"),
            "",
            "backward pass",
        ),
        (wrong("torch_pipeline", tensor="1.0.weight"), in_shards(), ZERO_BUBBLE, "that FSDP2 gathers alone"),
        (failed("torch_pipeline", METADATA), staged("ZBVZeroBubble", halves(1)), "", "of the user's"),
        (failed("torch_pipeline", SIZES), staged("InterleavedZeroBubble", halves(2)), "", "two outputs"),
        (failed("torch_fsdp", NO_DEVICE, "AssertionError"), SENT, "", "that keeps no state"),
        (
            failed("torch_fsdp", "aten.stack.default: got mixed torch.Tensor and DTensor"),
            IGNORED,
            "",
            "`ignored_params`",
        ),
        (
            updated("torch_ddp"),
            joined("sharded_optimizer", "uneven_inputs"),
            "feature.uneven_inputs",
            "under Join",
        ),
        (
            updated("torch_ddp"),
            joined("uneven_inputs", "sharded_optimizer"),
            "feature.uneven_inputs",
            "under Join",
        ),
        (
            failed(
                "xla_replica",
                "For xm.all_gather_bucketized, pin_layout=True is not yet supported.",
                stage=Stage.UPDATE,
            ),
            replace(joined("sharded_optimizer"), spelling=Spelling(pin_layout=True)),
            "",
            "`bucket_cap_mb_all_gather`",
        ),
        (
            failed(
                "xla_replica",
                "no message; raised by: assert self.device.type == 'xla'",
                "AssertionError",
                Stage.PLACE,
            ),
            replace(joined("sharded_optimizer"), spelling=Spelling(optimizer_before=True)),
            "",
            "made before the module is moved",
        ),
        (updated("torch_fsdp"), orthogonal(nesterov=False), "feature.muon", "Muon: without Nesterov"),
        (wrong("torch_fsdp1", nature=COUNTED), a_case(mesh=ONE_SHARD), "", "`HYBRID_SHARD` over one shard"),
        (
            infinite("torch_ddp"),
            strided("scatter"),
            "collective.memory=strided",
            "with strides for one without",
        ),
        *[
            (
                wrong("torch_fsdp1", "replicas"),
                extreme_of_replicas(reduction),
                "",
                "`HYBRID_SHARD` over one shard",
            )
            for reduction in ("max", "min")
        ],
        (
            wrong("torch_ddp"),
            learned(("dp_replicate", 2), ("dp_shard", 2), operation="broadcast", axis=1),
            "",
            "the gradient of `broadcast` is lost",
        ),
        *[
            (shown, strided("broadcast"), "collective.memory=strided", "with strides for one without")
            for shown in (wrong("torch_fsdp", "loss", Stage.FORWARD), infinite("torch_ddp"))
        ],
        (
            failed("torch_ddp", "ProcessGroupGloo::scatter: invalid tensor size at index 1"),
            listed(operation="all_to_all", form="list", parts="uneven", width=6),
            "",
            "parts differ in size",
        ),
        (
            failed("torch_ddp", OUTSIDE, "ValueError"),
            listed(operation="all_to_all", form="list"),
            "",
            "`all_to_all` over gloo fails in a group",
        ),
        (
            wrong("torch_ddp"),
            listed(operation="all_reduce", learned="functional"),
            "",
            "takes the collective for the identity",
        ),
        (
            failed("torch_pipeline", "Can't detach views in-place. Use detach() instead"),
            a_case(mesh=(("pp", 2), ("tp", 2))),
            "",
            "returns a view",
        ),
        (
            failed("torch_fsdp", "Weights only load failed", "UnpicklingError"),
            featured("save_and_load", (("dp_replicate", 1), ("dp_shard", 2), ("tp", 2)), step=1),
            "",
            "no safe global",
        ),
    ],
)
def test_what_a_report_describes_is_known(shown: Divergence, case: Case, option: str, reason: str) -> None:
    assert reason in known_as(shown, case, option)


@pytest.mark.parametrize(
    ("shown", "case", "option"),
    [
        # Several shards, another operation, even parts, another collective, no axis `tp`
        (wrong("torch_fsdp1", nature=COUNTED), a_case(mesh=GROUPS), ""),
        (infinite("torch_ddp"), strided("all_gather"), "collective.memory=strided"),
        (wrong("torch_fsdp1", "replicas"), listed(operation="all_reduce", reduction="max"), ""),
        (
            failed("torch_ddp", "ProcessGroupGloo::scatter: invalid tensor size at index 1"),
            listed(operation="all_to_all", form="list"),
            "",
        ),
        (failed("torch_ddp", OUTSIDE, "ValueError"), listed(operation="all_to_all"), ""),
        (wrong("torch_ddp"), listed(operation="all_gather", learned="functional"), ""),
        (failed("torch_pipeline", "Can't detach views in-place"), a_case(mesh=(("pp", 2),)), ""),
        (
            failed("torch_fsdp", "Weights only load failed", "UnpicklingError"),
            featured("save_and_load", GROUPS, step=1),
            "",
        ),
        # Adafactor: parameters that are no DTensors, flat ones, XLA, another tensor, another optimizer
        (updated("torch_ddp"), ADAFACTOR, "feature.optimizer"),
        (updated("torch_fsdp1"), ADAFACTOR, "feature.optimizer"),
        (updated("xla_spmd"), ADAFACTOR, "feature.optimizer"),
        (updated("torch_fsdp"), ADAFACTOR, ""),
        (updated("torch_fsdp"), ADAGRAD, "feature.optimizer"),
        (wrong("torch_fsdp"), ADAFACTOR, "feature.optimizer"),
        # Ties: what else the option may spoil, and a model without a tie
        (wrong("torch_fsdp", "loss", Stage.FORWARD), WRAPPED_APART, TIES),
        (updated("torch_fsdp"), WRAPPED_APART, TIES),
        (wrong("torch_ddp"), WRAPPED_APART, TIES),
        (wrong("torch_fsdp"), a_case(TIED[:1], sharding=Sharding(wrapped="ties"), sequence=2), TIES),
        (wrong("torch_tp"), WRAPPED_OVER_TP, ""),
        (updated("torch_tp"), WRAPPED_OVER_TP, TIES),
        (failed("torch_tp", SHARED, "ValueError"), replace(WRAPPED_OVER_TP, sharding=Sharding()), ""),
        # Classes: a rank has every share of them, another form of the loss, a later stage
        (hung("torch_tp"), of_classes(7), ""),
        (hung("torch_tp"), of_classes(5, "nll_loss"), ""),
        (hung("torch_tp", Stage.BACKWARD), of_classes(5), ""),
        (wrong("torch_ddp", "loss", Stage.FORWARD), EACH, "feature.forwards_first"),
        # local_map: even pieces, and activations that leave in another way
        (wrong("torch_dtensor", "loss", Stage.FORWARD), leaving(4, local_map=True), MAPPED),
        (failed("torch_dtensor", "sizes"), leaving(4, local_map=True), MAPPED),
        (wrong("torch_dtensor"), leaving(5, "full_tensor", local_map=True), MAPPED),
        (
            wrong("torch_dtensor", "loss", Stage.FORWARD),
            leaving(4, bare_to_local=True),
            "spelling.bare_to_local=True",
        ),
        # Collectives: another damage, or a layer behind the collective
        (wrong("torch_ddp", nature=NEGATED), learned(operation="reduce", reduction="avg"), ""),
        (
            wrong("torch_ddp", nature=COUNTED, tensor="2.weight"),
            learned(operation="reduce", reduction="avg"),
            "",
        ),
        (wrong("torch_ddp", nature=COUNTED), learned(operation="gather"), ""),
        (wrong("torch_ddp", tensor="2.weight"), learned(operation="gather"), ""),
        (wrong("torch_compile"), learned(operation="all_gather", learned="functional"), ""),
        (failed("torch_ddp", OUTSIDE, "ValueError"), learned(operation="all_gather"), ""),
        (failed("torch_ddp", OUTSIDE, "ValueError"), learned(*GROUPS, operation="broadcast"), ""),
        # Zero bubbles: what no block holds, another schedule
        (wrong("torch_pipeline"), in_shards(), ZERO_BUBBLE),
        (wrong("torch_pipeline", tensor="1.0.weight"), in_shards("Interleaved1F1B"), ZERO_BUBBLE),
        (failed("torch_pipeline", METADATA), staged("GPipe", halves(1)), ""),
        (failed("torch_pipeline", SIZES), staged("1F1B", halves(2)), ""),
        (failed("torch_pipeline", SIZES), staged("InterleavedZeroBubble", halves(1)), ""),
        # State dicts: another failure
        (failed("torch_fsdp", "sizes differ"), SENT, ""),
        (failed("torch_fsdp", "no message; raised by: assert shapes", "AssertionError"), SENT, ""),
        (
            failed("torch_fsdp", "aten.stack.default: got mixed torch.Tensor and DTensor"),
            replace(IGNORED, training=Training()),
            "",
        ),
        # A sharded optimizer without `Join`, and `Join` without one
        (updated("torch_ddp"), joined("sharded_optimizer"), "feature.sharded_optimizer"),
        (updated("torch_ddp"), joined("uneven_inputs"), "feature.uneven_inputs"),
        # An optimizer that shards nothing that was left behind
        (
            failed(
                "xla_replica",
                "no message; raised by: assert self.device.type == 'xla'",
                "AssertionError",
                Stage.PLACE,
            ),
            joined("sharded_optimizer"),
            "",
        ),
        (updated("torch_fsdp"), orthogonal(nesterov=True), "feature.muon"),
        (updated("torch_fsdp"), replace(orthogonal(nesterov=False), dtype="float32"), "feature.muon"),
    ],
)
def test_another_fault_in_the_same_place_is_not(shown: Divergence, case: Case, option: str) -> None:
    assert not known_as(shown, case, option)
