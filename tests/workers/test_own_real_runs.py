"""Models as people bring them, in real processes: what agrees, and what is found where torch is wrong.

They are small models in the style of real ones, so that nothing but torch is needed.
"""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from own_models import descriptions, written
from real_runs import compared, oracle_trace

from difftest.cases.case import Case
from difftest.cases.described import Description
from difftest.cases.layout import Mesh
from generators import own
from workers import backends

pytestmark = pytest.mark.slow

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional\n"

NUMBERS = """
def batch(generator, rows):
    return torch.randn(rows, 8, generator=generator), torch.randn(rows, 8, generator=generator)
"""

TOKENS = """
class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
    def forward(self, tokens):
        {forward}
def build(seed):
    return Tokens()
def batch(generator, rows):
    tokens = torch.randint(0, 16, (rows, 7), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
"""

MUON = f"""{HEAD}
def build(seed):
    return nn.Sequential(nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Linear(8, 8, bias=False))
def optimizer(parameters):
    return torch.optim.Muon(parameters, lr=0.05)
{NUMBERS}"""

CAST_LOGITS = HEAD + TOKENS.format(forward="return self.head(self.table(tokens).tanh()).float()")

READING = HEAD + TOKENS.format(
    forward="return self.head(self.table(tokens[:, : 1 + int(tokens.ne(99).sum(-1).max().item())]))"
)

PADDED = (
    HEAD
    + TOKENS.format(forward="return self.head(self.table(tokens))").replace(
        "    return tokens[:, :-1], tokens[:, 1:]",
        """    targets, padding = tokens[:, 1:].clone(), torch.randint(0, 6, (rows, 1), generator=generator)
    targets[torch.arange(6).expand(rows, 6) >= 6 - padding] = -100
    return tokens[:, :-1], targets""",
    )
    + """
def loss(outputs, targets):
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
"""
)

HALF_USED = f"""{HEAD}
class HalfUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.packed, self.head = nn.Linear(8, 16), nn.Linear(8, 8)
    def forward(self, x):
        used, _ = self.packed(x).chunk(2, dim=-1)
        return self.head(used.tanh())
def build(seed):
    return HalfUsed()
{NUMBERS}"""

SCANNED = f"""{HEAD}
from torch._higher_order_ops.scan import scan
class Scanned(nn.Module):
    def __init__(self):
        super().__init__()
        self.decay, self.head = nn.Parameter(torch.full((8,), 0.7)), nn.Linear(8, 8)
    def forward(self, x):
        rows, decay = torch.stack([x, x * 2.0, x * 3.0]), self.decay
        def step(state, row):
            state = torch.tanh(decay * state + row)
            return state, state.clone()
        return self.head(scan(step, torch.zeros_like(x), rows, dim=0)[1][-1])
def build(seed):
    return Scanned()
{NUMBERS}"""


MASKED = f"""{HEAD}
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.q, self.k, self.head = nn.Embedding(16, 8), *(nn.Linear(8, n) for n in (8, 8, 16))
        self.register_buffer("late", torch.full((6, 6), {{least}}).triu(1))
    def forward(self, tokens):
        x = self.table(tokens)
        late = torch.full((6, 6), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        return self.head((scores + late + self.late).softmax(-1) @ x)
def build(seed):
    return Masked()
def batch(generator, rows):
    tokens = torch.randint(0, 16, (rows, 7), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
"""


MODELS = {
    "muon": MUON,
    "cast_logits": CAST_LOGITS,
    "reading": READING,
    "padded": PADDED,
    "half_used": HALF_USED,
    "scanned": SCANNED,
    "masked": MASKED.format(least="0.0"),
    "masked_by_infinity": MASKED.format(least="float('-inf')"),
}


@pytest.fixture(scope="module")
def models(work: Path) -> Mapping[str, Description]:
    """What is known of each model; one process describes them all."""
    files = [written(work, text, f"{name}.py").name for name, text in MODELS.items()]
    answers = descriptions(work, [f"{file}:build" for file in files], (Mesh((("dp", 2),)),))
    assert [answer.error for answer in answers] == [""] * len(MODELS)
    return {name: one.description for name, one in zip(MODELS, answers, strict=True) if one.description}


def drawn(description: Description, *, dtype: str = "float32", plain: bool = False, parts: int = 1) -> Case:
    """The first data-parallel case over two ranks of this kind, with two steps."""
    cases = (
        own.case_at(description, 0, index, wanted=("data_parallel",), max_world_size=2)
        for index in range(999)
    )
    case = next(one for one in cases if one.dtype == dtype and one.forms.no_implicit_replication is plain)
    training = msgspec.structs.replace(case.training, steps=2, accumulation=parts)
    data = msgspec.structs.replace(case.data, batch=4 * parts)
    return msgspec.structs.replace(case, training=training, data=data, features=msgspec.UNSET)


@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor"])
def test_an_optimizer_that_casts_to_bfloat16_agrees(models: Mapping[str, Description], backend: str) -> None:
    assert compared(drawn(models["muon"]), backend).verdict == "agree"


@pytest.mark.parametrize("backend", ["torch_ddp", pytest.param("xla_spmd", marks=pytest.mark.xla)])
def test_logits_that_the_model_casts_to_float32_agree_in_bfloat16(
    models: Mapping[str, Description], backend: str
) -> None:
    assert compared(drawn(models["cast_logits"], dtype="bfloat16"), backend).verdict == "agree"


@pytest.mark.xla
def test_a_model_that_reads_a_number_agrees_and_threads_of_one_process_are_refused(
    models: Mapping[str, Description],
) -> None:
    description = models["reading"]
    assert description.layer.reads == {"_local_scalar_dense": 1}
    case = drawn(description, parts=2)
    assert compared(case, "xla_spmd").verdict == "agree"
    for backend in ("xla_ddp", "xla_replica", "xla_compile"):
        refused = backends.load(backend).unsupported(case)
        assert (
            refused == "cannot read values on the host within a step, as the model does (_local_scalar_dense)"
        )


def test_a_mean_over_valid_targets_agrees_over_ranks_and_parts(
    models: Mapping[str, Description],
) -> None:
    description = models["padded"]
    assert description.layer.mean_over == "targets"
    assert compared(drawn(description, parts=2), "torch_ddp").verdict == "agree"


@pytest.mark.parametrize("name", ["masked", "masked_by_infinity"])
def test_a_mask_of_the_least_number_of_a_dtype_or_of_infinity_leaves_no_range_and_agrees(
    models: Mapping[str, Description], name: str
) -> None:
    case = drawn(models[name])
    assert oracle_trace(case).events.in_range
    assert compared(case, "torch_ddp").verdict == "agree"


def test_an_unused_half_of_a_chunk_fails_on_plain_dtensor_alone(
    models: Mapping[str, Description],
) -> None:
    description = models["half_used"]
    assert compared(drawn(description), "torch_dtensor").verdict == "agree"
    (found,) = compared(drawn(description, plain=True), "torch_dtensor").divergences
    assert "backward" in found.detail
    assert "got mixed torch.Tensor and DTensor" in found.detail


@pytest.mark.skipif(not version("torch").startswith("2.9."), reason="torch 2.15 has mended it")
def test_a_wrong_gradient_of_torchs_scan_is_found_against_the_loop(
    models: Mapping[str, Description],
) -> None:
    case = drawn(models["scanned"])
    gradient = oracle_trace(case).steps[0]
    assert {name for stage, name in gradient if stage == "backward"} >= {"0.decay", "0.head.weight"}
    found = compared(case, "torch_ddp").divergences
    assert found, "torch 2.9's scan takes what its body closes over for a constant in part"
    assert "0.decay" in found[0].detail
