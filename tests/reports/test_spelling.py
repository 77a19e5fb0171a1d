"""Reproducer scripts spell out what a case has: collectives, attention, options, failures and titles."""

from typing import Any

import msgspec
import pytest
from sample_findings import a_measurement
from sample_scripts import FAULTS, LEARNED, OPERATIONS, collective_case
from samples import LINEAR, a_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.dropout import Dropout
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layers.residual import Residual
from difftest.cases.options import Replication, Spelling
from difftest.judge.divergence import Divergence, identity
from difftest.judge.outcome import NO_MESSAGE, Failure, Symptom
from difftest.judge.stage import Stage
from reports.reproducer import spelling
from reports.reproducer.fault import Fault, fault_of, needle, tolerance
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render


@pytest.mark.parametrize("form", ["single", "list"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_collective_is_written_with_each_side_s_own_call(operation: str, form: str) -> None:
    case = collective_case(operation, form, factor=0.5)
    on_torch, on_xla, whole = (
        render(case, name, LEARNED, "collective") for name in ("torch_ddp", "xla_replica", "xla_spmd")
    )
    for text in (on_torch, on_xla, whole):
        compile(text, operation, "exec")
    assert "GROUPS[0]" in on_torch
    assert "GROUPS" not in on_xla
    assert "xm." in on_xla
    assert "x.reshape(2, -1, 4)" in whole, "with SPMD a collective is written as its result"
    assert "GROUPS" not in whole


def test_flash_attention_is_written_only_with_torch_s_kernel() -> None:
    flash = FlashAttention(
        width=8, heads=2, head_dim=4, length=8, keys=5, causal=True, segments=True, bias=True, scale=0.5
    )
    usual = "[SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]"
    for spec, kernel in (
        (flash, "sdpa_kernel(SDPBackend.MATH)"),
        (msgspec.structs.replace(flash, bias=False), usual),
    ):
        case = a_case((spec, Linear(inputs=8, outputs=2)), sequence=8)
        text = render(case, "torch_ddp", LEARNED, "flash")
        compile(text, kernel, "exec")
        assert kernel in text
        named = render(msgspec.structs.replace(case, sdpa="cudnn"), "torch_ddp", LEARNED, "flash")
        assert named == text.replace("[SDPBackend.FLASH", "[SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH")
        assert "sources = x[:, :5]" in text
        assert "interpreter" in (refusal(case, "xla_spmd") or "")
    several = a_case((flash, FlashAttention(width=8, heads=1, head_dim=8, length=8, keys=8)), sequence=8)
    assert "several kinds" in (refusal(several, "torch_ddp") or "")


def test_moved_activations_are_written_only_if_they_have_placements() -> None:
    moves = (
        Redistribute(width=4, dims=(1,), by="full_tensor"),
        Redistribute(width=4, dims=(None,), by="to_local"),
    )
    case = a_case((Linear(inputs=4, outputs=4), *moves, Linear(inputs=4, outputs=2)))
    text = render(case, "torch_dtensor", FAULTS[1], "moves")
    assert "ByFullTensor([Shard(1)]), ByToLocal([Replicate()])" in text
    assert "nn.Identity(), nn.Identity()" in render(case, "torch_ddp", FAULTS[1], "moves")


def test_the_options_of_a_case_are_in_its_script() -> None:
    case = a_case(replication=Replication(gradient_as_bucket_view=True, own_weights=True))
    for backend in ("torch_ddp", "xla_ddp"):
        text = render(case, backend, FAULTS[4], "options")
        assert "DistributedDataParallel(model, gradient_as_bucket_view=True)" in text
        assert "parameter.data.add_(rank)" in text


LONG = Fault(kind="numbers", stage=Stage.UPDATE, step=3, tensor="0.weight", tolerance=1e-3)
BLOCK = Residual(layers=(Linear(inputs=4, outputs=4),))
TIED = (Embedding(vocabulary=5, width=4), Linear(inputs=4, outputs=5, bias=False, tied=True))
ATTENTION = Attention(width=4, heads=2, kv_heads=2, segments=True)
SUM = Collective(operation="all_reduce", width=4, mesh=(2,))
WORDS = Training(loss="cross_entropy")


@pytest.mark.parametrize(
    ("form", "case", "backend", "usual"),
    [
        ("pin_layout", collective_case("reduce_scatter"), "xla_replica", "0, 2, [[0, 1]])"),
        ("pin_layout", a_case(), "xla_replica", "xm.reduce_gradients(optimizer)"),
        (
            "torch_checkpoint",
            a_case((Linear(inputs=4, outputs=4), BLOCK), training=Training(checkpointing=True)),
            "xla_spmd",
            "from torch.utils.checkpoint import checkpoint",
        ),
        ("torch_loss", a_case(), "torch_dtensor", "functional.mse_loss(output, y)"),
        (
            "torch_loss",
            a_case(training=WORDS),
            "xla_spmd",
            "functional.cross_entropy(model(x).flatten(0, -2)",
        ),
        (
            "torch_loss",
            a_case(training=WORDS, fed=Data(batch=4, ignored=0.5)),
            "torch_ddp",
            'reduction="sum") / count',
        ),
        ("unequal", a_case((ATTENTION,), sequence=4), "torch_ddp", "(-1) != EXTRAS.segments.unsqueeze(-2)"),
        (
            "torch_dropout",
            a_case((Dropout(width=4), *LINEAR)),
            "torch_ddp",
            "functional.dropout(*inputs, 0.0)",
        ),
        ("optimizer_before", a_case(), "xla_ddp", 'optimizer = getattr(model, "module", model).optimizer'),
        (
            "integers",
            a_case((SUM, Linear(inputs=4, outputs=2)), fed=Data(batch=4, regime="exact"), path="collectives"),
            "xla_replica",
            "own = x.detach().int()",
        ),
        ("host_backward", a_case(), "xla_spmd", "sum().backward()\nxr.use_spmd()"),
        ("host_backward", a_case(), "torch_ddp", "sum().backward()\n    distributed.init"),
        ("host_backward", a_case(), "xla_ddp", "sum().backward()\nMODELS = "),
        ("no_broadcast", a_case(), "torch_ddp", "init_sync=False"),
        ("changing_number", a_case(), "xla_spmd", "loss = loss * 2.0 ** (1 + step % 8)"),
        ("unoptimised", a_case(), "xla_replica", "--xla_backend_optimization_level=0"),
        (
            "bare_to_local",
            a_case((*LINEAR, Redistribute(width=2, dims=(0,), by="to_local"))),
            "torch_dtensor",
            "x.to_local()",
        ),
        (
            "local_map",
            a_case((*LINEAR, Redistribute(width=2, dims=(0,), by="to_local"))),
            "torch_dtensor",
            "local_map(",
        ),
    ],
)
def test_a_usual_form_is_in_the_script_of_a_case_that_has_it(
    form: str, case: Case, backend: str, usual: str
) -> None:
    text, plain = in_both_forms(form, case, backend)
    compile(text, form, "exec")
    assert usual in text
    assert usual not in plain


@pytest.mark.parametrize(
    ("form", "case", "backend", "own"),
    [
        (
            "tied_before",
            a_case(TIED, sequence=3),
            "xla_annotated",
            ").to(torch_xla.device())\nmodel[1].weight",
        ),
        ("no_broadcast", a_case(), "xla_replica", "broadcast_master_param"),
        ("verified_shapes", a_case(), "xla_ddp", "_verify_param_shape_across_processes"),
    ],
)
def test_what_a_usual_form_leaves_out_is_not_in_the_script(
    form: str, case: Case, backend: str, own: str
) -> None:
    text, plain = in_both_forms(form, case, backend)
    assert own not in text
    assert own in plain


def in_both_forms(form: str, case: Case, backend: str) -> tuple[str, str]:
    """Return the script in the usual form, and in the workers' own."""
    spelled = msgspec.structs.replace(case, spelling=Spelling(**{form: True}))
    return render(spelled, backend, LONG, form), render(case, backend, LONG, form)


def test_a_tied_weight_is_tied_in_the_script() -> None:
    layers = (Embedding(vocabulary=5, width=4), Linear(inputs=4, outputs=5, bias=False, tied=True))
    text = render(a_case(layers, sequence=3, fed=Data(batch=4)), "xla_spmd", FAULTS[0], "tied")
    assert text.count("model[1].weight = model[0].weight") == 2


def test_a_script_uses_activation_checkpointing_if_its_case_does() -> None:
    block = Residual(layers=(Linear(inputs=4, outputs=4),))
    case = a_case((Linear(inputs=4, outputs=4), block), training=Training(checkpointing=True))
    assert "checkpoint(super().forward, x, use_reentrant=False)" in render(
        case, "torch_ddp", FAULTS[0], "again"
    )
    assert "from torch_xla.utils.checkpoint import checkpoint" in render(case, "xla_ddp", FAULTS[0], "again")


def test_a_needle_holds_no_number_folder_or_address() -> None:
    assert needle(
        "Sharding propagation failed for Op(op=aten.view.default, args_schema=Spec(S(0) on (31, 12)))"
    ) == ("Sharding propagation failed for Op(op=aten.view.default,")
    assert (
        needle("2026 F external/xla/util.h:127] Check failed: ShapeUtil::IsScalar(value.shape())")
        == "ShapeUtil::IsScalar(value.shape())"
    )
    assert needle("0x7f 12") == ""
    assert needle(f"{NO_MESSAGE}assert output_sharding is not None") == ""


def test_the_tolerance_lies_between_rounding_and_the_error() -> None:
    assert tolerance(a_measurement(1e6, greatest=0.01, floor=1e-8)) == pytest.approx(1e-5)
    assert tolerance(a_measurement(1e6, greatest=0.5, floor=0.0, exact=True)) == 0.25


def test_a_failure_is_recognised_by_type_and_message() -> None:
    failure = Failure(
        symptom=Symptom.EXCEPTION,
        stage=Stage.FORWARD,
        step=2,
        kind="ValueError",
        message="size 3 is not allowed here",
    )
    place: dict[str, Any] = {
        "backend": "torch_ddp",
        "side": "torch",
        "path": "data_parallel",
        "stage": Stage.FORWARD,
        "step": 2,
    }
    first = Divergence(**place, check="completion", symptom=Symptom.EXCEPTION, cause=identity(failure))
    assert fault_of(first, failure, None) == Fault(
        kind="raises", stage=Stage.FORWARD, step=2, failure="ValueError", needle="is not allowed here"
    )
    assert fault_of(Divergence(**place, check="determinism", symptom=Symptom.MISMATCH), failure, None) is None


def test_text_from_a_log_cannot_end_a_docstring() -> None:
    assert spelling.docstring('a """ b \\ c\nd\x00é') == "a ''' b / c d"
