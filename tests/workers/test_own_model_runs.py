"""Users' modules in real processes: they are described, refused with a reason, and agree on both sides."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from own_models import documented, written
from real_runs import agrees

from difftest.cases.described import Description
from difftest.cases.layout import Mesh, Replicate, Shard
from generators import own
from workers.isolate import sandbox, zygotes
from workers.isolate.described import described
from workers.isolate.zygotes import environment

pytestmark = pytest.mark.slow

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional\n"
BATCH = """
def batch(generator, rows):
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 2, generator=generator)
"""
MESHES = (Mesh((("dp", 2),)), Mesh((("dp", 2), ("tp", 2))))


def description_of(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Description:
    written(folder, text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(zygotes, "_zygotes", {})  # those of other tests have other working directories
    return described("model.py:build", MESHES)


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


def test_the_documented_model_agrees_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    description = description_of(tmp_path, monkeypatch, documented())
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
    "no batch": (
        PLAIN.replace("def batch", "def bunch"),
        r"defines no function batch",
    ),
    "plan": (
        PLAIN + "def plan(mesh):\n    return {'outer.*': ()}\n",
        r"plan\(\{'dp': 2\}\) gives 'outer\.\*' \(\); needed: 1 placements",
    ),
}


PROGRAM = """
import sys
from difftest.cases.described import DescriptionRequest
from difftest.cases.layout import Mesh
from difftest.ground.errors import UsageError
from workers.own import describe
for name in sys.argv[1:]:
    try:
        describe.description(DescriptionRequest(f"{name}.py:build", (Mesh((("dp", 2),)),)))
        print("described")
    except UsageError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def reasons(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The lines with which wrong models are refused; one process describes them all."""
    folder = tmp_path_factory.mktemp("wrong")
    names = {fault: fault.replace(" ", "_") for fault in WRONG}
    for fault, (text, _) in WRONG.items():
        written(folder, text, f"{names[fault]}.py")
    command = [sys.executable, "-P", "-c", PROGRAM, *names.values()]
    printed = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=True
    ).stdout
    return dict(zip(WRONG, printed.splitlines(), strict=True))


@pytest.mark.parametrize("fault", WRONG)
def test_a_model_that_cannot_be_compared_is_refused_in_one_line(
    fault: str, reasons: Mapping[str, str]
) -> None:
    assert re.search(WRONG[fault][1], reasons[fault]), reasons[fault]


def test_a_module_whose_rounding_leaves_nothing_to_compare_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = of_module("return self.inner(x) + 1e9 * x[:, :2] - 1e9 * x[:, :2]")
    description = description_of(tmp_path, monkeypatch, text)
    assert re.fullmatch(r"module Wrong is off by \d+% of its output in float32", description.noise)


def test_both_sides_drop_the_same_elements_and_rows_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropping = "nn.TransformerEncoderLayer(4, 2, 4, dropout=0.5, batch_first=True)"
    text = of_module("return self.inner(x.unsqueeze(1))[:, 0, :2]", dropping)
    description = description_of(tmp_path, monkeypatch, text)
    assert description.layer.rowwise
    case = own.case_at(description, 0, 0, wanted=("data_parallel",), max_world_size=2)
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


def test_batch_normalization_ties_a_plan_and_a_helper_file_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "WIDTH = 2\n", "sizes.py")
    text = f"""{HEAD}
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
    description = description_of(tmp_path, monkeypatch, text)
    layer = description.layer
    assert not layer.rowwise
    assert layer.tied == {"last.weight": "first.weight"}
    assert set(layer.files) == {"model.py", "sizes.py"}
    assert description.layouts is not None
    (layout,) = description.layouts
    assert layout.mesh == MESHES[1]
    assert layout.batch == (Shard(0), Replicate())
    assert layout.parameters["0.first.weight"] == (Replicate(), Shard(0))
    assert layout.parameters["0.norm.weight"] == (Replicate(), Replicate())
