"""`difftest case --from`: the module of a recorded run as a case, with its inputs and placements."""

import json
from pathlib import Path

import pytest
from command_line import command
from installed_packages import needs
from recorded_scripts import in_ranks

pytestmark = pytest.mark.slow
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

from without_ray import without_ray  # noqa: E402

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, x, scale, causal=False):
        projections = (self.wq, self.wk, self.wv)
        q, k, v = (w(x).view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2) for w in projections)
        y = F.scaled_dot_product_attention(q * scale, k, v, is_causal=causal)
        return self.wo(y.transpose(1, 2).reshape(x.shape))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attn, self.head = nn.Embedding(32, 16), Attention(), nn.Linear(16, 32)
        self.register_buffer("scale", torch.ones(8))

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.attn(x, self.scale, causal=True))


def build(seed):
    return Net()
"""

TRAIN = """
import os
import torch
from torch.nn import functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import difftest
from model import build


def train(out):
    torch.manual_seed(0)
    model = build(0)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("dp_shard",))
        fully_shard(model.attn, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with difftest.record(model, optimizer, out=out, whole="attn") as recorder:
        for step in range(3):
            tokens = torch.randint(32, (8, 7), generator=torch.Generator().manual_seed(step))
            tokens = tokens.chunk(world)[rank]
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step(loss)
"""


def trained(folder: Path) -> None:
    import sys  # noqa: PLC0415  in a rank

    sys.path.insert(0, str(folder))
    from train import train  # type: ignore[import-not-found]  # noqa: PLC0415  the test wrote it

    train(folder / "run")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model's file and its run of FSDP2 on two ranks."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "model.py").write_text(MODEL)
    (folder / "train.py").write_text(TRAIN)
    in_ranks(2, trained, folder)
    return folder


GIVEN = ("case", "--from", "run", "--model", "model.py:build")


def test_a_recorded_module_becomes_a_case_with_its_placements(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    done = command(*GIVEN, "--step", 1, "--module", "attn")
    assert done.status == 0, done.output
    case = json.loads(done.output[done.output.index("\n{") :] if "\n{" in done.output else done.output)
    assert (case["path"], case["training"]["steps"], case["dtype"]) == ("plan", 1, "float32")
    assert case["layout"]["mesh"]["axes"] == [["dp_shard", 2]]
    assert case["layout"]["parameters"]["0.module.wq.weight"] == [["S", 0]]
    (layer,) = case["model"]["layers"]
    assert layer["source"] == "recorded_attn_1.py:build"
    assert {"model.py", "recorded_attn_1.py"} <= {*layer["files"]}
    Path("case.json").write_text(json.dumps(case))
    with without_ray():
        replayed = command("replay", "case.json", "--backends", "torch_fsdp", "--trust")
    assert replayed.status == 0, replayed.output


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--step", 9, "--module", "attn"), "has no step 9; recorded: 0, 1, 2"),
        (("--step", 1, "--module", "mlp"), "has no module 'mlp'"),
        (("--step", 1, "--module", "head"), "difftest.record(..., whole='head')"),
        (("--step", 1), "--from needs --step, --module"),
    ],
)
def test_what_the_run_lacks_is_wrong_usage(
    run: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[object, ...], says: str
) -> None:
    monkeypatch.chdir(run)
    done = command(*GIVEN, *given)
    assert (done.status, says in done.output) == (2, True), done.output
