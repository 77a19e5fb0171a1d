"""Options of wrappers in real processes: they agree, and a planted fault shows with its option alone."""

from typing import Any

import msgspec
import pytest
from in_part import in_part
from installed_packages import needs
from real_runs import agrees, oracle_trace, shared, together
from sharded_cases import GRID, HYBRID, MEGATRON, PERCEPTRON, S0, TENSOR, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Mesh, Placement, Placements, Shard
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption, Replication, Spelling
from difftest.cases.wrapping import Regions, Sharding, Wrapped
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Failure, Trace
from workers import faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

PAIR, HALVES = Mesh((("dp_shard", 2),)), Mesh((("tp", 2),))
PARTS = Training(steps=2, accumulation=2, optimizer="momentum", learning_rate=0.0625)
CLASSES = Training(steps=2, loss="cross_entropy")
MIXED = Feature(name="mixed_precision", options={"reduce": "bfloat16", "output": "policy"})
BLOCK = Residual(layers=(Linear(inputs=9, outputs=9),))
WITH_BLOCK = Model(layers=(Linear(inputs=6, outputs=9), BLOCK, Linear(inputs=9, outputs=5)))
THRICE = Model(layers=(WITH_BLOCK.layers[0], msgspec.structs.replace(BLOCK, times=3), WITH_BLOCK.layers[2]))
DECODER = Model(
    sequence=4,
    layers=(
        Embedding(vocabulary=12, width=8),
        Residual(layers=(LayerNorm(width=8), Attention(width=8, heads=4, kv_heads=4))),
        Residual(layers=(LayerNorm(width=8), Linear(inputs=8, outputs=16), Linear(inputs=16, outputs=8))),
        LayerNorm(width=8),
        Linear(inputs=8, outputs=6),
    ),
)
CUT: dict[str, Placement] = {
    **{f"1.1.{name}.weight": Shard(0) for name in "qkv"},
    "1.1.o.weight": Shard(1),
    "2.1.weight": S0,
    "2.1.bias": S0,
    "2.2.weight": Shard(1),
    "4.weight": S0,
    "4.bias": S0,
}


EVEN = Model(layers=(Linear(inputs=6, outputs=8), Linear(inputs=8, outputs=4)))
EVENLY = a_sharded_case(PAIR, (S0,), {"": (S0,)}, model=EVEN).layout


def sharded(mesh: Mesh = PAIR, *, training: Training = PARTS, **told: Any) -> Case:  # noqa: ANN401  a case's
    """A perceptron whose parameters are sharded over the last axis, with these parts of a case."""
    axes = len(mesh.axes)
    case = a_sharded_case(mesh, (S0,) * axes, {"": (R,) * (axes - 1) + (S0,)}, training=training)
    return msgspec.structs.replace(case, **told)


def featured(feature: str, **options: FeatureOption) -> Case:
    case = a_sharded_case(PAIR, (S0,), {"": (S0,)}, training=PARTS, model=WITH_BLOCK)
    return msgspec.structs.replace(case, features=(Feature(name=feature, options=options),))


def recast(output: str, wrapped: Wrapped, *, again: bool) -> Case:
    """Mixed precision, whose block is computed `again` or not."""
    training = msgspec.structs.replace(PARTS, checkpointing=again)
    case = featured("mixed_precision", reduce="float32", output=output)
    return msgspec.structs.replace(case, training=training, sharding=Sharding(wrapped=wrapped))


def cut(regions: Regions, mesh: Mesh = HALVES) -> Case:
    """A decoder in Megatron's pattern over the last axis."""
    data = len(mesh.axes) - 1
    placed: dict[str, Placements] = {name: (*(R,) * data, at) for name, at in CUT.items()}
    batch: Placements = (*(S0,) * data, R)
    case = a_sharded_case(mesh, batch, placed, model=DECODER, training=CLASSES, ignored=0.25)
    return msgspec.structs.replace(case, regions=regions)


SHARDINGS = {
    "kept": sharded(sharding=Sharding(reshard_after_forward=False)),
    "over one rank": sharded(sharding=Sharding(reshard_after_forward=1)),
    "divided": sharded(sharding=Sharding(gradient_divide_factor=3.0, summed=True)),
    "every part": sharded(sharding=Sharding(synced="every")),
    "scattered": sharded(HYBRID, sharding=Sharding(synced="scattered")),
    "layers": sharded(sharding=Sharding(wrapped="layers")),
    "whole": sharded(sharding=Sharding(wrapped="whole", offload=True)),
    "first and last together": recast("policy", "groups", again=False),
    "first and last together, told more": sharded(
        sharding=Sharding(wrapped="groups", gradient_divide_factor=2.0, summed=True, kept_in_step=True)
    ),
    "mixed": sharded(features=(MIXED,)),
    "mixed, divided, every part": sharded(
        HYBRID,
        features=(MIXED,),
        sharding=Sharding(gradient_divide_factor=2.0, summed=True, synced="every", wrapped="layers"),
    ),
    "every layer gives float32": recast("everywhere", "layers", again=False),
    "blocks again in mixed precision": recast("policy", "blocks", again=True),
    "layers again in mixed precision": recast("loss", "layers", again=True),
    "unfreezing": featured("unfreezing", name="1.0.weight", step=1),
    "kept state": msgspec.structs.replace(
        sharded(), model=EVEN, layout=EVENLY, features=(Feature(name="kept_state_dict"),)
    ),
    "skipped": featured("skipped_block", block="1", parts=2),
    "flattened": sharded(Mesh((("dp_shard", 4),)), sharding=Sharding(flattened=True)),
    "flattened beside replicas": sharded(HYBRID, sharding=Sharding(flattened=True, synced="scattered")),
    "a sum of losses": featured("forwards_first", backward="once"),
    "losses one by one": featured("forwards_first", backward="each"),
    "own function": featured("own_function", outputs=2),
    "a block three times": msgspec.structs.replace(
        sharded(), model=THRICE, layout=featured("forwards_first", backward="once").layout
    ),
}


fully_sharded = shared(SHARDINGS, "torch_fsdp")


def test_a_group_that_is_trained_later_fails_in_mixed_precision_which_is_known() -> None:
    later = Feature(name="unfreezing", options={"name": "0.weight", "step": 1})
    model = Model(layers=(Linear(inputs=6, outputs=8, bias=False), Linear(inputs=8, outputs=4)))
    case = a_sharded_case(PAIR, (S0,), {"": (S0,)}, training=Training(steps=2), model=model)
    case = msgspec.structs.replace(
        case, path="wrappers", features=(later, MIXED), sharding=Sharding(wrapped="layers")
    )
    outcome = sandbox.run(case, "torch_fsdp")
    assert isinstance(outcome, Failure)
    assert "attempting to assign a gradient with dtype" in outcome.message
    (first,) = compare(case, "torch_fsdp", "torch", oracle_trace(case), outcome).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith("group_unfrozen_in_mixed_precision.py")


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("inputs_uncast_when_recomputed_in_fsdp", recast("everywhere", "layers", again=True)),
        ("inputs_uncast_in_a_group_of_fsdp", recast("everywhere", "groups", again=False)),
    ],
)
def test_a_fault_of_what_fsdp_casts_is_known(name: str, case: Case) -> None:
    assert_known(case, "torch_fsdp", name)


def assert_known(case: Case, backend: str, name: str) -> None:
    """It diverges on a backend of torch's as the ledger's entry of this name says."""
    outcome = sandbox.run(case, backend)
    (first,) = compare(case, backend, "torch", oracle_trace(case), outcome).divergences
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith(f"{name}.py")


def test_what_is_cast_without_a_wrapper_is_not_computed_again() -> None:
    outcome = sandbox.run(recast("policy", "blocks", again=True), "torch_dtensor")
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.message[:16]) == ("UnsupportedError", "no wrapper casts")


@pytest.mark.parametrize("name", SHARDINGS)
def test_fully_sharded_training_agrees_with_every_option(name: str) -> None:
    assert agrees(SHARDINGS[name], "torch_fsdp", fully_sharded(name))


@pytest.mark.parametrize("shards", [1, 2])
def test_fully_sharded_training_beside_tensor_parallelism_divides_by_the_cases_factor(shards: int) -> None:
    case = a_sharded_case(
        Mesh((("dp_shard", shards), ("tp", 1))), (S0, R), {"": (S0, R)}, training=Training(steps=2)
    )
    case = msgspec.structs.replace(case, sharding=Sharding(gradient_divide_factor=3.0, summed=True))
    assert agrees(case, "torch_tp", sandbox.run(case, "torch_tp"))


def test_fsdp_refuses_parameters_whose_mesh_has_another_root_which_is_known() -> None:
    case = a_sharded_case(Mesh((("dp_shard", 2), ("tp", 1))), (S0, R), {"": (S0, R)})
    case = msgspec.structs.replace(case, sharding=Sharding(second_mesh=True))
    assert_known(case, "torch_tp", "mesh_root_of_equal_submeshes")
    assert agrees(case, "torch_dtensor", sandbox.run(case, "torch_dtensor"))


@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor"])
def test_mixed_precision_agrees_where_every_forward_pass_casts(backend: str) -> None:
    case = msgspec.structs.replace(
        a_sharded_case(Mesh((("dp", 2),)), training=Training(steps=2)), features=(MIXED,)
    )
    assert agrees(case, backend, sandbox.run(case, backend))


REGIONS = {
    "sequence": cut(Regions(sequence=True)),
    "gathered once": cut(Regions(sequence=True, prepared=True)),
    "rows": cut(Regions(sequence=True, loss="rows")),
    "positions": cut(Regions(loss="positions", mean=True)),
    "nll_loss": cut(Regions(loss="nll_loss", mean=True)),
    "uneven classes over data": cut(Regions(sequence=True, loss="rows"), GRID),
}


tensor_parallel = shared(REGIONS, "torch_tp")


@pytest.mark.parametrize("name", REGIONS)
def test_tensor_parallel_training_agrees_with_what_it_cuts(name: str) -> None:
    assert agrees(REGIONS[name], "torch_tp", tensor_parallel(name))


def test_the_usual_loss_takes_the_weights_of_classes_for_replicas() -> None:
    case = a_sharded_case(HALVES, (R,), {"0.weight": (S0,)}, training=CLASSES, ignored=0.25)
    case = msgspec.structs.replace(case, regions=Regions(weighted=True), spelling=Spelling(torch_loss=True))
    assert agrees(case, "torch_dtensor", sandbox.run(case, "torch_dtensor"))


def test_a_rank_without_a_class_fails_in_loss_parallel() -> None:
    outcome = sandbox.run(cut(Regions(loss="rows"), TENSOR), "torch_tp")
    assert isinstance(outcome, Failure)
    assert "out of bounds for dimension 1 with size 0" in outcome.message


FORMS = ("full", "offloaded", "flattened", "loose", "sent", "gathered")
STATES = {form: featured("state_dict_options", step=1, form=form) for form in FORMS}


@pytest.mark.parametrize("backend", ["torch_fsdp", "torch_ddp"])
def test_a_state_that_is_read_and_loaded_in_a_form_that_is_drawn_changes_nothing(backend: str) -> None:
    cases = list(STATES.values())
    if backend == "torch_ddp":
        whole = a_sharded_case(Mesh((("dp", 2),)), model=WITH_BLOCK, training=PARTS)
        cases = [msgspec.structs.replace(whole, features=case.features) for case in cases]
    outcomes = together(cases, backend)
    wrong = [
        (form, outcome)
        for form, case, outcome in zip(FORMS, cases, outcomes, strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, backend, outcome)
    ]
    assert wrong == []


@pytest.mark.xla
@pytest.mark.parametrize("form", ["offloaded", "flattened", "loose"])
def test_a_state_of_spmd_that_is_read_and_loaded_by_torchs_functions_changes_nothing(form: str) -> None:
    assert agrees(STATES[form], "xla_spmd", sandbox.run(STATES[form], "xla_spmd"))


def test_a_kept_state_dict_of_uneven_shards_is_found_to_be_old() -> None:
    case = featured("kept_state_dict")
    compared = compare(case, "torch_fsdp", "torch", oracle_trace(case), sandbox.run(case, "torch_fsdp"))
    assert compared.divergences[0].check == "parameters"


def test_clipping_of_what_norms_learn_from_pieces_is_found() -> None:
    """Their gradients are partial sums, of which `clip_grad_norm_` of torch 2.9 takes another norm."""
    clipped = msgspec.structs.replace(CLASSES, clip_norm=0.03125)
    case = msgspec.structs.replace(REGIONS["sequence"], training=clipped)
    compared = compare(case, "torch_tp", "torch", oracle_trace(case), sandbox.run(case, "torch_tp"))
    assert compared.divergences[0].check == "parameters"


@pytest.mark.xla
@pytest.mark.parametrize("name", ["sequence", "rows", "uneven classes over data"])
def test_annotated_activations_agree_under_spmd(name: str) -> None:
    assert agrees(REGIONS[name], "xla_spmd", sandbox.run(REGIONS[name], "xla_spmd"))


def strided(operation: str) -> Case:
    layer = Collective(operation=operation, width=4, mesh=(2,), memory="strided")  # type: ignore[arg-type]
    model = Model(layers=(layer, Linear(inputs=layer.outputs, outputs=3)))
    return a_sharded_case(Mesh((("dp", 2),)), (S0,), model=model, training=Training())


@pytest.mark.parametrize("operation", ["reduce", "scatter"])
def test_collectives_that_other_paths_lack_agree_without_strides(operation: str) -> None:
    case = strided(operation)
    first, *others = case.model.layers
    plain = msgspec.structs.replace(first, memory=msgspec.UNSET)
    case = case.changed("model", layers=(plain, *others))
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


@pytest.mark.parametrize("operation", ["reduce", "scatter", "all_reduce"])
def test_what_gloo_makes_of_strides_is_found(operation: str) -> None:
    case = strided(operation)
    outcome = sandbox.run(case, "torch_ddp")
    assert compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).verdict == "diverge"


@pytest.mark.parametrize("loss", ["log_softmax", "images"])
def test_the_wrong_gradients_of_a_parallel_loss_are_found(loss: str) -> None:
    case = cut(Regions(loss=loss))  # type: ignore[arg-type]
    compared = compare(case, "torch_tp", "torch", oracle_trace(case), sandbox.run(case, "torch_tp"))
    assert compared.divergences[0].check == "gradients"


def test_backward_passes_that_ddp_does_not_expect_are_found() -> None:
    """It reduces in the first one, and leaves the second one's gradients on their rank."""
    case = a_sharded_case(Mesh((("dp", 2),)), training=PARTS)
    forwards = Feature(name="forwards_first", options={"backward": "each"})
    case = msgspec.structs.replace(case, features=(forwards,))
    compared = compare(case, "torch_ddp", "torch", oracle_trace(case), sandbox.run(case, "torch_ddp"))
    assert {"gradients", "replicas"} & {divergence.check for divergence in compared.divergences}


def test_a_tie_whose_layers_are_wrapped_apart_is_found_to_be_broken() -> None:
    tied = Model(
        layers=(Embedding(vocabulary=6, width=4), Linear(inputs=4, outputs=6, tied=True)), sequence=2
    )
    case = a_sharded_case(PAIR, (S0,), {"": (S0,)}, model=tied, training=CLASSES)
    case = msgspec.structs.replace(case, sharding=Sharding(wrapped="ties"))
    compared = compare(case, "torch_fsdp", "torch", oracle_trace(case), sandbox.run(case, "torch_fsdp"))
    assert compared.divergences[0].check == "gradients"


def test_a_static_graph_that_begins_without_sync_is_found() -> None:
    case = a_sharded_case(Mesh((("dp", 2),)), training=PARTS)
    case = msgspec.structs.replace(case, replication=Replication(static_graph=True))
    outcome = sandbox.run(case, "torch_ddp")
    assert isinstance(outcome, Failure)
    assert "expect_autograd_hooks_" in outcome.message


def test_a_reader_of_torchs_that_confuses_uneven_pieces_is_found() -> None:
    mesh = Mesh((("dp_shard", 2), ("tp", 2)))
    model = Model(layers=(Linear(inputs=4, outputs=6, bias=False), Linear(inputs=6, outputs=4, bias=False)))
    placed: dict[str, Placements] = {"0.weight": (S0, S0), "1.weight": (S0, Shard(1))}
    case = a_sharded_case(mesh, (S0, R), placed, model=model, training=Training())
    outcome = sandbox.run(case, "torch_tp")
    assert isinstance(outcome, Trace)
    assert any("_S(" in kind for kind in outcome.events.misread)
    compared = compare(case, "torch_tp", "torch", oracle_trace(case), outcome)
    assert [divergence.check for divergence in compared.divergences] == ["full_tensor"]


def test_gradients_that_are_added_up_in_another_dtype_than_fsdps_policy_has_are_found() -> None:
    """The numbers hide it: the computation before it rounds to bfloat16 too."""
    plain = cut(Regions(sequence=True), Mesh((("dp_shard", 2), ("tp", 2))))
    promised, narrow = (
        msgspec.structs.replace(
            plain, features=(msgspec.structs.replace(MIXED, options={"reduce": dtype, "output": "policy"}),)
        )
        for dtype in ("float32", "bfloat16")
    )
    reported = []
    for case, outcome in zip((promised, narrow), together([promised, narrow], "torch_tp"), strict=True):
        assert isinstance(outcome, Trace)
        compared = compare(case, "torch_tp", "torch", oracle_trace(case), outcome)
        reported.append("reduction_dtype" in {divergence.check for divergence in compared.divergences})
    assert reported == [True, False]


SEVERAL = a_sharded_case(
    Mesh((("dp_shard", 2), ("ep", 2))),
    (R, R),
    {"0.weight": (S0, R), "0.bias": (S0, R), "2.weight": (R, S0), "2.bias": (R, S0)},
    training=Training(steps=2, accumulation=2),
)
CLIPPED = msgspec.structs.replace(SEVERAL, training=Training(steps=2, clip_norm=0.03125))


@pytest.mark.parametrize("backend", ["torch_fsdp", "torch_dtensor"])
def test_layers_on_several_meshes_agree(backend: str) -> None:
    assert agrees(SEVERAL, backend, sandbox.run(SEVERAL, backend))


def test_clipping_over_several_meshes_of_fsdp_fails() -> None:
    assert agrees(CLIPPED, "torch_dtensor", sandbox.run(CLIPPED, "torch_dtensor"))
    outcome = sandbox.run(CLIPPED, "torch_fsdp")
    assert isinstance(outcome, Failure)
    assert "stack" in outcome.message


SHOWS = {
    "masters_rounded": (SHARDINGS["mixed"], "torch_fsdp"),
    "block_not_skipped": (SHARDINGS["skipped"], "torch_dtensor"),
    "stays_frozen": (SHARDINGS["unfreezing"], "torch_dtensor"),
    "kept_copy": (featured("kept_state_dict"), "torch_dtensor"),
    "state_without_optimizer": (STATES["full"], "torch_fsdp"),
    "divided_twice": (SHARDINGS["divided"], "torch_fsdp"),
    "replicas_left_out": (SHARDINGS["scattered"], "torch_fsdp"),
    "parts_replaced": (SHARDINGS["every part"], "torch_fsdp"),
    "gathered_stale": (SHARDINGS["kept"], "torch_fsdp"),
    "group_reduced_twice": (SHARDINGS["first and last together, told more"], "torch_fsdp"),
    "cast_counts_twice": (SHARDINGS["every layer gives float32"], "torch_fsdp"),
    "norm_of_a_piece": (REGIONS["sequence"], "torch_tp"),
    "classes_of_one_rank": (REGIONS["positions"], "torch_tp"),
    "weights_forgotten": (cut(Regions(weighted=True)), "torch_dtensor"),
    "clipped_by_mesh": (CLIPPED, "torch_dtensor"),
    "strides_lost": (strided("broadcast"), "torch_ddp"),
    "last_loss_forgotten": (SHARDINGS["a sum of losses"], "torch_fsdp"),
    "halved_by_own_function": (SHARDINGS["own function"], "torch_fsdp"),
    "block_applied_once": (SHARDINGS["a block three times"], "torch_fsdp"),
}
"""A case of every planted fault of these paths, and a backend."""


def test_every_planted_fault_of_these_paths_has_a_case() -> None:
    own = {"wrappers", "regions", "collective_layouts", "several_meshes"}
    assert {*SHOWS} == {name for name, fault in faults.all_faults().items() if own & {*fault.paths}}


@pytest.mark.parametrize("fault", in_part(SHOWS, 3))
def test_a_planted_fault_shows_with_its_option_and_no_other_case_reaches_it(fault: str) -> None:
    case, backend = SHOWS[fault]
    planted = faults.all_faults()[fault]
    plain = a_sharded_case(PAIR, (S0,), {"": (S0,)}, training=PARTS, model=PERCEPTRON)
    assert planted.reaches(case)
    assert not planted.reaches(plain)
    side = plugins.load("workers.backends", backend).SIDE
    outcome = sandbox.run(case, backend, options={faults.VARIABLE: fault})
    assert compare(case, backend, side, oracle_trace(case), outcome).verdict == "diverge"


def test_the_pattern_of_tensor_parallelism_is_the_layouts() -> None:
    assert {*CUT} < {*DECODER.parameters()}
    assert {*MEGATRON} < {*PERCEPTRON.parameters()}
