"""Tensor parallelism of a user's module by the plan of styles in her source."""

from pathlib import Path

import msgspec
import pytest
from own_models import described_in
from real_runs import agrees

from difftest.cases.case import Case
from difftest.cases.described import Description
from difftest.cases.layout import Replicate, Shard
from difftest.ground.errors import UsageError
from generators import own
from workers.backends import torch_tp
from workers.isolate import sandbox

pytestmark = pytest.mark.slow

SOURCE = """
import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(16, 8), nn.LayerNorm(8), nn.Linear(8, 16)
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return self.head(x)


def build(seed):
    return Model()


def batch(generator, rows):
    tokens = torch.randint(0, 16, (rows, 7), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
"""
STYLES = """
tp_plan = {"layers.*.[qkv]": ColwiseParallel(), "layers.*.o": RowwiseParallel()}
"""
WORDS = """
def plan(model, mesh):
    if mesh["tp"] > 2:
        return None
    words = {f"layers.{i}.{name}": "colwise" for i in range(len(model.layers)) for name in "qkv"}
    return words | {"layers.*.o": "rowwise", "head": "colwise_gather_output"}
"""


def drawn(description: Description, path: str, ranks: int) -> Case:
    """The first case of a path that the plan gives, over so many ranks."""
    cases = (own.case_at(description, 0, i, wanted=(path,), max_world_size=ranks) for i in range(500))
    case = next(
        one
        for one in cases
        if (one.world_size, one.layout.mesh.shape[-1], one.dtype) == (ranks, 2, "float32")
        and torch_tp.unsupported(one) is None
    )
    return msgspec.structs.replace(case, features=msgspec.UNSET)


@pytest.mark.parametrize(("plan", "head"), [(STYLES, None), (WORDS, 0)])
def test_a_plan_of_styles_or_words_says_what_it_cuts_on_which_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, head: int | None
) -> None:
    layer = described_in(tmp_path, monkeypatch, SOURCE + plan).layer
    assert layer.styled_on == (2,), "two heads are too few for four ranks"
    assert [layer.styled[f"layers.1.{name}.weight"] for name in "qkvo"] == [0, 0, 0, 1]
    assert [layer.styled[f"layers.1.{name}.bias"] for name in "qo"] == [0, None]
    assert layer.styled.get("head.weight") == head
    assert "norm.weight" not in layer.styled


@pytest.mark.parametrize(("path", "ranks"), [("tensor_parallel", 2), ("data_tensor", 4)])
def test_a_plan_agrees_alone_and_beside_data_parallelism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, ranks: int
) -> None:
    description = described_in(tmp_path, monkeypatch, SOURCE + STYLES)
    case = drawn(description, path, ranks)
    assert case.layout.parameters["0.layers.0.q.weight"][-1] == Shard(0)
    assert case.layout.parameters["0.norm.weight"][-1] == Replicate()
    assert agrees(case, "torch_tp", sandbox.run(case, "torch_tp"))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("tp_plan = {'layer.*.q': 'colwise'}", r"tp_plan has 'layer\.\*\.q', which no module matches"),
        ("tp_plan = {'head': 'columns'}", r"tp_plan has 'columns' for 'head'; allowed: a ParallelStyle of"),
        ("tp_plan = ['head']", r"tp_plan is list; needed: a dict of styles by patterns of modules' names"),
    ],
)
def test_a_plan_that_is_none_or_does_not_run_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        described_in(tmp_path, monkeypatch, SOURCE + plan)
    assert "\n" not in str(refused.value)


def test_a_source_without_a_plan_is_refused_by_name_on_parallelize_module_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = described_in(tmp_path, monkeypatch, SOURCE)
    case = own.case_at(description, 0, 0, wanted=("tensor_parallel",), max_world_size=2)
    assert torch_tp.unsupported(case) == (
        "no plan of parallelize_module follows from placements, and the user's source has no tp_plan"
    )
