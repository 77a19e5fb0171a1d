"""Flash attention in real processes, on both sides."""

import msgspec
import pytest
from flash_cases import CASES, SINGLE_PRECISION, flash
from installed_packages import skip_without
from real_runs import agrees, greatest_relative_error, relative_errors
from samples import a_case

from difftest.cases.case import Data, Training
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.options import TORCH_KERNELS, SdpaKernel
from difftest.judge.comparator import compare
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace
from difftest.judge.stage import Stage
from workers.isolate import sandbox
from workers.torch.flash import takes
from workers.training import tp_plan
from workers.xla.flash import partition_spec

pytestmark = pytest.mark.slow

torch_needed = skip_without("torch")
kernels_needed = skip_without("torch_xla", "jax")


AT_NIGHT = ("a long sequence", "both", "heads", "several blocks of batch")
"""Cases of the nightly job: they take longest, or others have the same options."""

EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else ()) for name in CASES]
)


@pytest.mark.xla
@kernels_needed
@EVERY
def test_the_interpreted_kernels_agree_with_the_oracle(name: str) -> None:
    outcome = sandbox.run(CASES[name], "xla_spmd")
    assert agrees(CASES[name], "xla_spmd", outcome)
    assert isinstance(outcome, Trace)
    assert outcome.environment["pallas"] in ("interpreted", "compiled")
    assert outcome.environment["partition_spec"] == str(partition_spec(CASES[name]))


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
    (attention, *_) = case.model.flash_attentions.values()
    assert chosen.environment["sdpa"] == ("math" if attention.bias else "flash_attention")
    assert plain.environment["sdpa"] == "math"


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


@torch_needed
@pytest.mark.parametrize("name", TORCH_KERNELS)
def test_a_device_that_is_neither_cpu_nor_cuda_has_math_alone_and_is_asked_for_no_gpu(
    name: SdpaKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch  # noqa: PLC0415  slow
    from torch.backends import cuda  # noqa: PLC0415

    for question in ("flash", "efficient", "cudnn"):
        monkeypatch.setattr(cuda, f"can_use_{question}_attention", pytest.fail)
    heads = torch.empty(1, 2, 4, 8, device="meta", dtype=torch.bfloat16)
    operands = cuda.SDPAParams(heads, heads, heads, None, 0.0, False, False)  # noqa: FBT003
    kernel = torch.nn.attention.SDPBackend.__members__[TORCH_KERNELS[name]]
    assert takes(kernel, operands) is (name == "math")


@torch_needed
@pytest.mark.parametrize("name", ["segments", "fewer keys", "bfloat16"])
def test_dtensors_have_rules_for_plain_mathematics_if_only_the_batch_is_sharded(name: str) -> None:
    outcome = sandbox.run(CASES[name], "torch_dtensor")
    if "tp" in CASES[name].layout.mesh.names:
        assert isinstance(outcome, Failure)
        assert outcome.symptom is Symptom.CAPABILITY
    else:
        assert agrees(CASES[name], "torch_dtensor", outcome)


@pytest.mark.xla
@kernels_needed
def test_a_query_without_a_key_means_zeros_to_sdpa_and_the_mean_of_the_values_to_pallas() -> None:
    """The reason why the path draws no segments if there are fewer keys than queries."""
    case = flash(length=256, keys=128, segments=True)
    assert greatest_relative_error(case, sandbox.run(case, "torch_ddp")) < SINGLE_PRECISION
    assert relative_errors(case, sandbox.run(case, "xla_spmd"))[0, Stage.FORWARD, "output"] > 0.01


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
