"""Flash attention.

What its path draws, and how each side's wrapper gets the layout.
"""

import msgspec
import numpy as np
import pytest
from flash_cases import BY_HEADS, CASES, GRID, flash
from generated_cases import GeneratedCases
from hypothesis import given
from installed_packages import skip_without
from quiet_draws import quietly
from samples import a_case

from difftest.cases.case import Case
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import TORCH_KERNELS
from difftest.ground import installed
from generators.cases import case_at, cases
from generators.layers.flash_attention import MOST_SCORES
from generators.paths import flash_attention
from generators.training import scores
from workers.backends import xla_spmd
from workers.faults import all_faults
from workers.training import tp_plan
from workers.xla import pallas
from workers.xla.flash import partition_spec

S0, S1, R = Shard(0), Shard(1), Replicate()

torch_needed = skip_without("torch")


def attentions(case: Case) -> list[FlashAttention]:
    return list(case.model.flash_attentions.values())


@quietly()
@given(cases(paths=("flash_attention",)))
def test_every_query_has_a_key_and_every_bias_a_scale_that_is_a_power_of_two(case: Case) -> None:
    for layer in attentions(case):
        assert layer.keys == layer.length or not layer.segments
        assert not layer.bias or (layer.scale and np.log2(layer.scale).is_integer())


@quietly()
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


@pytest.mark.long
@quietly()
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


@pytest.mark.long
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


@pytest.mark.slow
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
