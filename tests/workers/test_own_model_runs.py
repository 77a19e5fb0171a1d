"""Users' modules in real processes: they are described, refused with a reason, and agree on both sides."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from own_models import descriptions, written
from real_runs import agrees

from difftest.cases.described import Answer, Description
from difftest.cases.layout import Mesh, Replicate, Shard
from generators import own
from workers.isolate import sandbox
from workers.isolate.described import described

pytestmark = pytest.mark.slow

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional\n"
BATCH = """
def batch(generator, rows):
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 2, generator=generator)
"""
MESHES = (Mesh((("dp", 2),)), Mesh((("dp", 2), ("tp", 2))))


def of_module(forward: str, made: str = "nn.Linear(4, 2)") -> str:
    return f"""{HEAD}
class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = {made}
    def forward(self, x):
        {forward}
def build(seed):
    return Wrong()
{BATCH}"""


def test_the_documented_model_agrees_on_both_sides(work: Path) -> None:
    written(work)
    description = described("model.py:build", MESHES)
    assert description.dtypes == ("float32", "bfloat16", "float16")
    assert description.layer.rowwise
    assert description.loss == "cross_entropy"
    assert set(description.layer.files) == {"model.py"}
    case = own.case_at(description, 0, 0, wanted=("data_parallel",), max_world_size=2)
    for backend in ("torch_ddp", "xla_spmd"):
        assert agrees(case, backend, sandbox.run(case, backend)), backend


PLAIN = of_module("return self.inner(x)")
WRONG = {
    "random": (
        of_module("return self.inner(x) + torch.rand_like(x)[:, :2]"),
        r"draws random numbers \(rand_like\), which no two backends draw alike",
    ),
    "forward": (
        of_module("raise TypeError('no')"),
        r"module Wrong fails: TypeError: no \(forward.py",
    ),
    "float64": (
        of_module("return self.inner(x) if self.inner.weight.dtype != torch.float64 else 1 / 0"),
        r"module Wrong fails in float64: ZeroDivisionError: division by zero \(float64.py",
    ),
    "inner": (
        of_module("return self.inner(x)", "nn.Linear(5, 2)"),
        r"module inner \(Linear\) fails: RuntimeError: mat1 and mat2 shapes",
    ),
    "targets": (
        of_module("return self.inner(x)[:, :1]"),
        r"gives \(4, 1\) and batch the targets \(4, 2\); mse needs \(4, 1\), so the source needs",
    ),
    "batch": (
        PLAIN.replace("generator=generator", ""),
        r"another batch for the same",
    ),
    "weights": (
        PLAIN.replace("    return Wrong()", "    torch.seed()\n    return Wrong()"),
        r"two builds from the same seed give different weights",
    ),
    "no batch": (
        PLAIN.replace("def batch", "def bunch"),
        r"defines no function batch",
    ),
    "plan": (
        PLAIN + "def plan(mesh):\n    return {'outer.*': ()}\n",
        r"plan\(\{'dp': 2\}\) gives 'outer\.\*' \(\); needed: 1 placements",
    ),
}


TIED = f"""{HEAD}
from sizes import WIDTH
from torch.distributed.tensor import Replicate, Shard
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)
    def forward(self, x):
        return self.last(self.norm(self.first(x)))[:, :WIDTH]
def build(seed):
    return Tied()
def plan(mesh):
    return {{"first.*": (Replicate(), Shard(0))}} if "tp" in mesh else None
{BATCH}"""

DESCRIBED = {
    "noisy": of_module("return self.inner(x) + 1e9 * x[:, :2] - 1e9 * x[:, :2]"),
    "dropping": of_module(
        "return self.inner(x.unsqueeze(1))[:, 0, :2]",
        "nn.TransformerEncoderLayer(4, 2, 4, dropout=0.5, batch_first=True)",
    ),
    "tied": TIED,
    "closed": of_module(
        "return self.call(x)", "nn.Linear(4, 2); self.call = lambda x, inner=self.inner: inner(x)"
    ),
}


@pytest.fixture(scope="module")
def answers(work: Path) -> Mapping[str, Answer]:
    """What is known of every model but the documented one; one process describes them all."""
    written(work, "WIDTH = 2\n", "sizes.py")
    texts = {**{fault: text for fault, (text, _) in WRONG.items()}, **DESCRIBED}
    files = [written(work, text, f"{name.replace(' ', '_')}.py") for name, text in texts.items()]
    return dict(zip(texts, descriptions(work, [f"{file.name}:build" for file in files], MESHES), strict=True))


@pytest.fixture
def description(answers: Mapping[str, Answer]) -> Callable[[str], Description]:
    """The description of a model of `DESCRIBED`."""

    def of(name: str) -> Description:
        described = answers[name].description
        assert described, answers[name].error
        return described

    return of


def test_a_module_may_call_others_through_a_closure(description: Callable[[str], Description]) -> None:
    assert description("closed").dtypes == ("float32", "bfloat16", "float16"), (
        "a copy would run the original's"
    )


@pytest.mark.parametrize("fault", WRONG)
def test_a_model_that_cannot_be_compared_is_refused_in_one_line(
    fault: str, answers: Mapping[str, Answer]
) -> None:
    assert re.search(WRONG[fault][1], answers[fault].error), answers[fault].error


def test_a_module_whose_rounding_leaves_nothing_to_compare_is_named(
    description: Callable[[str], Description],
) -> None:
    assert re.fullmatch(r"module Wrong is off by \d+% of its output in float32", description("noisy").noise)


def test_both_sides_drop_the_same_elements_and_rows_stay_apart(
    description: Callable[[str], Description],
) -> None:
    dropping = description("dropping")
    assert dropping.layer.rowwise
    case = own.case_at(dropping, 0, 0, wanted=("data_parallel",), max_world_size=2)
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


def test_batch_normalization_ties_a_plan_and_a_helper_file_are_described(
    description: Callable[[str], Description],
) -> None:
    tied = description("tied")
    layer = tied.layer
    assert not layer.rowwise
    assert layer.tied == {"last.weight": "first.weight"}
    assert set(layer.files) == {"tied.py", "sizes.py"}
    assert tied.layouts is not None
    (layout,) = tied.layouts
    assert layout.mesh == MESHES[1]
    assert layout.batch == (Shard(0), Replicate())
    assert layout.parameters["0.first.weight"] == (Replicate(), Shard(0))
    assert layout.parameters["0.norm.weight"] == (Replicate(), Replicate())
