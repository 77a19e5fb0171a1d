"""Flash attention.

What its path draws, how each side's wrapper gets the layout, and both sides in real processes.
"""

import importlib.util

import msgspec
import numpy as np
import pytest
from flash_cases import BY_HEADS, CASES, GRID, SINGLE_PRECISION, flash
from generated_cases import GeneratedCases
from hypothesis import HealthCheck, given, settings
from real_runs import agrees, greatest_relative_error, relative_errors
from samples import a_case

from difftest import installed
from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import TORCH_KERNELS, SdpaKernel
from difftest.judge.comparator import compare
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace
from difftest.judge.stage import Stage
from generators.cases import case_at, cases
from generators.layers.flash_attention import MOST_SCORES
from generators.paths import flash_attention
from generators.training import scores
from workers.backends import xla_spmd
from workers.faults import all_faults
from workers.isolate import sandbox
from workers.training import tp_plan
from workers.xla import pallas
from workers.xla.flash import partition_spec

S0, S1, R = Shard(0), Shard(1), Replicate()
quietly = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)

torch_needed = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
kernels_needed = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch_xla", "jax")),
    reason="torch_xla or jax is not installed",
)


EVERY = pytest.mark.parametrize("name", sorted(CASES))


def attentions(case: Case) -> list[FlashAttention]:
    return list(case.model.flash_attentions.values())


@quietly
@given(cases(paths=("flash_attention",)))
def test_every_query_has_a_key_and_every_bias_a_scale_that_is_a_power_of_two(case: Case) -> None:
    for layer in attentions(case):
        assert layer.keys == layer.length or not layer.segments
        assert not layer.bias or (layer.scale and np.log2(layer.scale).is_integer())


@quietly
@given(cases(paths=("flash_attention",)))
def test_data_axes_shard_the_batch_and_tp_shards_all_heads_or_none(case: Case) -> None:
    for (name, _), placement in zip(case.layout.mesh.axes, case.layout.batch, strict=True):
        assert placement == (R if name == "tp" else S0)
    if case.layout.mesh.names[-1] == "tp":
        for path in case.model.flash_attentions:
            over_tp = {
                name: case.layout.parameters[f"{path}.{name}"][-1]
                for name in BY_HEADS
                if f"{path}.{name}" in case.layout.parameters
            }
            assert over_tp in (dict.fromkeys(over_tp, R), {name: BY_HEADS[name] for name in over_tp})


@quietly
@given(cases(paths=("flash_attention",)))
def test_a_run_is_small_enough_for_the_interpreter(case: Case) -> None:
    ranks = max(
        1, int(np.prod([size for name, size in case.layout.mesh.axes if name in case.layout.batch_axes]))
    )
    least = ranks * case.training.accumulation
    assert (
        case.data.batch == least
        or case.training.steps * case.data.batch * scores(model=case.model) <= MOST_SCORES
        or not attentions(case)
    )
    assert (
        case.training.steps <= 2
        or not attentions(case)
        or (case.data.learnable and case.world_size <= flash_attention.MOST_LEARNING_RANKS)
    )


def test_a_hundred_cases_show_every_kind_of_flash_attention() -> None:
    drawn = [case_at(2, index, paths=("flash_attention",)) for index in range(100)]
    layers = [layer for case in drawn for layer in attentions(case)]
    assert {layer.head_dim for layer in layers} == {8, 16, 64, 128, 256}
    assert {(layer.length, layer.keys) for layer in layers} >= {
        (128, 128),
        (256, 128),
        (256, 256),
        (512, 512),
        (384, 384),
    }
    for field in ("causal", "segments", "bias"):
        assert {getattr(layer, field) for layer in layers} == {True, False}
    assert {case.dtype for case in drawn} == {"float32", "bfloat16", "float16"}
    assert sum(any(layer.segments for layer in attentions(case)) for case in drawn) > 40
    assert {case.sdpa for case in drawn} == {msgspec.UNSET, *TORCH_KERNELS}
    assert any(layer.key_heads < layer.heads for layer in layers)


def test_a_case_without_flash_attention_names_no_kernel(generated_cases: GeneratedCases) -> None:
    (hundred,) = generated_cases.hundreds(0)
    without = [case for case in hundred if not attentions(case)]
    assert without
    assert all(case.sdpa is msgspec.UNSET for case in without)


def test_the_partition_spec_names_the_axes_that_shard_batch_and_heads() -> None:
    assert partition_spec(flash()) == ("dp", None, None, None)
    assert partition_spec(flash(("tp", 2))) == (None, "tp", None, None)
    assert partition_spec(flash(*GRID)) == ("dp", "tp", None, None)
    assert partition_spec(flash(("dp", 2), ("dp_shard", 2), rows=4)) == (("dp", "dp_shard"), None, None, None)
    assert partition_spec(flash(("tp", 2), heads=3)) == (None, None, None, None)


@pytest.mark.parametrize(
    ("jax", "reason"),
    [(None, "asks for, 0.7.1; installed: none"), ("0.10.2", "asks for, 0.7.1; installed: 0.10.2")],
)
def test_kernels_without_the_required_jax_are_unsupported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, jax: str | None, reason: str
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setattr(
        pallas, "requires", lambda _name: ['numpy>=1; extra == "tests"', 'jax==0.7.1; extra == "pallas"']
    )
    monkeypatch.setattr(installed, "version", {"torch_xla": "2.9.0", "jax": jax}.get)
    assert reason in (xla_spmd.unsupported(CASES["segments"]) or "")
    assert xla_spmd.unsupported(a_case()) is None
    with pytest.raises(NotImplementedError, match=reason):
        pallas.install("CPU")
    assert pallas.install("TPU") == "compiled"


def test_the_plan_refuses_a_bias_and_shards_the_heads() -> None:
    assert "bias of flash attention" in (tp_plan.refusal(CASES["heads"]) or "")
    assert tp_plan.refusal(CASES["both"]) is None
    assert tp_plan.plan(CASES["both"])["1.0.q"] == ("columns", False, True)
    assert tp_plan.plan(CASES["both"])["1.0.o"] == ("rows", True, False)


@torch_needed
def test_faults_of_segment_ids_reach_cases_with_sharded_ids() -> None:
    reached = {
        name: [f for f in all_faults() if f.startswith("flash_") and all_faults()[f].reaches(case)]
        for name, case in CASES.items()
    }
    assert reached["heads"] == reached["fewer keys"] == []
    assert reached["segments"] == ["flash_ids_not_sharded", "flash_backward_ids_not_sharded"]
    assert len(reached["a long sequence"]) == 3
    assert not any(
        fault.reaches(CASES["segments"].unsharded())
        for name, fault in all_faults().items()
        if name.startswith("flash_")
    )


@pytest.mark.slow
@pytest.mark.xla
@kernels_needed
@EVERY
def test_the_interpreted_kernels_agree_with_the_oracle(name: str) -> None:
    outcome = sandbox.run(CASES[name], "xla_spmd")
    assert agrees(CASES[name], "xla_spmd", outcome)
    assert isinstance(outcome, Trace)
    assert outcome.environment["pallas"] in ("interpreted", "compiled")
    assert outcome.environment["partition_spec"] == str(partition_spec(CASES[name]))


@pytest.mark.slow
@torch_needed
@EVERY
def test_sdpa_agrees_with_the_oracle_by_its_flash_kernel_and_by_its_math_kernel(name: str) -> None:
    case = CASES[name]
    backend = "torch_tp" if "tp" in case.layout.mesh.names else "torch_ddp"
    case = case.unsharded() if tp_plan.refusal(case) and backend == "torch_tp" else case
    backend = "torch_ddp" if case.world_size == 1 else backend
    chosen, plain = (
        sandbox.run(case, backend),
        sandbox.run(msgspec.structs.replace(case, sdpa="math"), backend),
    )
    assert agrees(case, backend, chosen)
    assert agrees(case, backend, plain)
    assert isinstance(chosen, Trace)
    assert isinstance(plain, Trace)
    assert chosen.environment["sdpa"] == ("math" if attentions(case)[0].bias else "flash_attention")
    assert plain.environment["sdpa"] == "math"


@pytest.mark.slow
@torch_needed
@pytest.mark.parametrize(
    ("sdpa", "used"), [("math", "math"), ("flash", "flash_attention"), ("cudnn", "flash_attention")]
)
def test_the_kernel_that_a_case_names_is_used_where_the_cpu_has_it(sdpa: SdpaKernel, used: str) -> None:
    outcome = sandbox.run(
        msgspec.structs.replace(CASES["segments"], sdpa=sdpa),
        "torch_ddp",
        options={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert isinstance(outcome, Trace)
    assert outcome.environment["sdpa"] == used


@pytest.mark.slow
@torch_needed
@pytest.mark.parametrize("name", ["segments", "fewer keys", "bfloat16"])
def test_dtensors_have_rules_for_plain_mathematics_if_only_the_batch_is_sharded(name: str) -> None:
    outcome = sandbox.run(CASES[name], "torch_dtensor")
    if "tp" in CASES[name].layout.mesh.names:
        assert isinstance(outcome, Failure)
        assert outcome.symptom is Symptom.CAPABILITY
    else:
        assert agrees(CASES[name], "torch_dtensor", outcome)


@pytest.mark.slow
@pytest.mark.xla
@kernels_needed
def test_a_query_without_a_key_means_zeros_to_sdpa_and_the_mean_of_the_values_to_pallas() -> None:
    """The reason why the path draws no segments if there are fewer keys than queries."""
    case = flash(length=256, keys=128, segments=True)
    assert greatest_relative_error(case, sandbox.run(case, "torch_ddp")) < SINGLE_PRECISION
    assert relative_errors(case, sandbox.run(case, "xla_spmd"))[0, Stage.FORWARD, "output"] > 0.01


@pytest.mark.slow
@pytest.mark.xla
@kernels_needed
def test_lengths_that_backward_blocks_do_not_divide_fail_in_the_backward_pass() -> None:
    """A fault of torch_xla 2.9.0.

    The forward kernel takes 384 keys in one block, which the gradient's block of 256 does not divide.
    """
    failure = sandbox.run(flash(length=384, heads=1), "xla_spmd")
    assert isinstance(failure, Failure)
    assert (failure.symptom, failure.stage, failure.message) == (
        Symptom.EXCEPTION,
        Stage.BACKWARD,
        "block_k=384 should be divisible by block_k_dq=256",
    )


@pytest.mark.slow
@pytest.mark.xla
@kernels_needed
def test_the_three_historical_faults_give_a_wrong_shape_a_wrong_output_and_a_wrong_gradient() -> None:
    case = flash(length=256, segments=True, rows=4)
    whole, cut, late = (
        sandbox.run(case, "xla_spmd", options={"DIFFTEST_FAULT": name})
        for name in ("flash_ids_not_sharded", "flash_keys_cut_like_queries", "flash_backward_ids_not_sharded")
    )
    assert isinstance(whole, Failure)
    assert (whole.stage, whole.kind) == (Stage.FORWARD, "TypeError")
    assert "got operand of shape (4, 256), target broadcast shape (2, 256, 128)" in whole.message
    assert relative_errors(case, cut)[0, Stage.FORWARD, "output"] > 0.01
    errors = relative_errors(case, late)
    assert errors[0, Stage.FORWARD, "output"] < SINGLE_PRECISION
    assert errors[0, Stage.BACKWARD, "1.0.q.weight"] > 0.01


@pytest.mark.slow
@pytest.mark.xla
@kernels_needed
def test_a_task_is_not_learned_if_the_backward_kernels_get_unsharded_ids() -> None:
    training = Training(steps=24, optimizer="adam", learning_rate=2.0**-5)
    case = msgspec.structs.replace(
        flash(segments=True, heads=1, training=training), data=Data(batch=2, learnable=True)
    )

    def losses(outcome: Outcome) -> list[float]:
        assert isinstance(outcome, Trace), outcome
        return [float(step[Stage.FORWARD, "loss"].pieces[0]) for step in outcome.steps]

    healthy = losses(sandbox.run(case, "xla_spmd"))
    spoiled = losses(
        sandbox.run(case, "xla_spmd", options={"DIFFTEST_FAULT": "flash_backward_ids_not_sharded"})
    )
    assert healthy[-1] < 0.1 * healthy[0]
    assert spoiled[0] == healthy[0]
    assert not spoiled[-1] < 3 * healthy[-1]


@pytest.mark.slow
@torch_needed
def test_scores_that_the_backward_pass_computes_again_differ_by_rounding_alone() -> None:
    """The oracle used to compute sharp scores only once for both passes.

    The gradient of the values was then 82 x the rounding noise off.
    """
    attention = FlashAttention(width=8, heads=4, head_dim=128, length=256, keys=128)
    layers = (
        Embedding(vocabulary=16, width=8),
        Residual(layers=(LayerNorm(width=8), attention)),
        Linear(inputs=8, outputs=8),
    )
    training = Training(loss="cross_entropy", learning_rate=0.0625)
    case = a_case(
        layers,
        sequence=256,
        training=training,
        fed=Data(batch=4, regime="sharp"),
        path="flash_attention",
        seed=2,
    )
    comparison = compare(
        case, "torch_ddp", "torch", sandbox.run(case, "oracle"), sandbox.run(case, "torch_ddp")
    )
    assert comparison.verdict == "agree", comparison.divergences[:1]


@pytest.mark.slow
@torch_needed
def test_attend_has_the_values_and_gradients_of_its_formula() -> None:
    torch = pytest.importorskip("torch")
    from workers.training.operators import Scores, attend  # noqa: PLC0415  it imports torch

    random = torch.Generator().manual_seed(1)
    query, key, value, ab = (
        torch.randn(shape, dtype=torch.float64, generator=random)
        for shape in ((2, 2, 5, 3),) * 3 + ((2, 5, 5),)
    )
    ids = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 1, 1, 1]])
    inputs = [tensor.requires_grad_() for tensor in (query, key, value, ab)]

    def scores(bias: object) -> Scores:
        return Scores(scale=0.5, causal=True, segments=(ids, ids), ab=bias)  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(lambda q, k, v, bias: attend(q, k, v, scores(bias)), inputs)
    visible = (ids[:, :, None] == ids[:, None]) & torch.ones(5, 5, dtype=torch.bool).tril()
    weights = (query @ key.mT * 0.5 + ab).masked_fill(~visible[:, None], float("-inf"))
    assert torch.allclose(attend(query, key, value, scores(ab)), weights.softmax(-1) @ value, rtol=1e-12)
