"""Models as people bring them, in real processes: what agrees, and what is found where torch is wrong.

They are small models in the style of real ones, so that nothing but torch is needed.
"""

import functools
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from own_models import written
from real_runs import oracle_trace

from difftest.cases.case import Case
from difftest.cases.described import Description
from difftest.cases.layout import Mesh
from difftest.ground.errors import UnsupportedError
from difftest.ground.plugins import load
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Failure
from generators import own
from workers.isolate import sandbox, zygotes
from workers.isolate.described import described

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


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> functools.partial[Description]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zygotes, "_zygotes", {})  # those of other tests have other working directories
    return functools.partial(_described, tmp_path)


def _described(folder: Path, text: str) -> Description:
    written(folder, text)
    return described("model.py:build", (Mesh((("dp", 2),)),))


def drawn(description: Description, *, dtype: str = "float32", plain: bool = False, parts: int = 1) -> Case:
    """The first data-parallel case over two ranks of this kind, with two steps."""
    cases = (
        own.case_at(description, 0, index, wanted=("data_parallel",), max_world_size=2)
        for index in range(999)
    )
    case = next(one for one in cases if one.dtype == dtype and one.forms.no_implicit_replication is plain)
    training = msgspec.structs.replace(case.training, steps=2, accumulation=parts)
    data = msgspec.structs.replace(case.data, batch=4 * parts)
    return msgspec.structs.replace(case, training=training, data=data)


def compared(case: Case, backend: str) -> Comparison:
    side = load("workers.backends", backend).SIDE
    return compare(case, backend, side, oracle_trace(case), sandbox.run(case, backend))


@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor"])
def test_an_optimizer_that_casts_to_bfloat16_agrees(
    describe: functools.partial[Description], backend: str
) -> None:
    assert compared(drawn(describe(MUON)), backend).verdict == "agree"


@pytest.mark.parametrize("backend", ["torch_ddp", pytest.param("xla_spmd", marks=pytest.mark.xla)])
def test_logits_that_the_model_casts_to_float32_agree_in_bfloat16(
    describe: functools.partial[Description], backend: str
) -> None:
    assert compared(drawn(describe(CAST_LOGITS), dtype="bfloat16"), backend).verdict == "agree"


@pytest.mark.xla
def test_a_model_that_reads_a_number_agrees_and_threads_of_one_process_are_refused(
    describe: functools.partial[Description],
) -> None:
    description = describe(READING)
    assert description.layer.reads == {"_local_scalar_dense": 1}
    case = drawn(description, parts=2)
    assert compared(case, "xla_spmd").verdict == "agree"
    refused = sandbox.run(case, "xla_ddp")
    assert isinstance(refused, Failure)
    assert refused.kind == UnsupportedError.__name__
    assert "reads values on the host within a step (_local_scalar_dense)" in refused.message


def test_a_mean_over_valid_targets_agrees_over_ranks_and_parts(
    describe: functools.partial[Description],
) -> None:
    description = describe(PADDED)
    assert description.layer.mean_over == "targets"
    assert compared(drawn(description, parts=2), "torch_ddp").verdict == "agree"


@pytest.mark.parametrize("least", ["0.0", "float('-inf')"])
def test_a_mask_of_the_least_number_of_a_dtype_or_of_infinity_leaves_no_range_and_agrees(
    describe: functools.partial[Description], least: str
) -> None:
    case = drawn(describe(MASKED.format(least=least)))
    assert oracle_trace(case).events.in_range
    assert compared(case, "torch_ddp").verdict == "agree"


def test_an_unused_half_of_a_chunk_fails_on_plain_dtensor_alone(
    describe: functools.partial[Description],
) -> None:
    description = describe(HALF_USED)
    assert compared(drawn(description), "torch_dtensor").verdict == "agree"
    (found,) = compared(drawn(description, plain=True), "torch_dtensor").divergences
    assert "backward" in found.detail
    assert "got mixed torch.Tensor and DTensor" in found.detail


@pytest.mark.skipif(not version("torch").startswith("2.9."), reason="torch 2.15 has mended it")
def test_a_wrong_gradient_of_torchs_scan_is_found_against_the_loop(
    describe: functools.partial[Description],
) -> None:
    case = drawn(describe(SCANNED))
    gradient = oracle_trace(case).steps[0]
    assert {name for stage, name in gradient if stage == "backward"} >= {"0.decay", "0.head.weight"}
    found = compared(case, "torch_ddp").divergences
    assert found, "torch 2.9's scan takes what its body closes over for a constant in part"
    assert "0.decay" in found[0].detail
