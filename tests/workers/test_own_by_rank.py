"""Models in which rows influence each other, on wrappers: every rank's rows are a batch of their own."""

from pathlib import Path

import msgspec
import pytest
from own_models import described_in
from real_runs import agrees, oracle_trace

from difftest.campaign.campaign import ORACLE
from difftest.campaign.localise import MODULE, VARIABLE, first_beyond
from difftest.cases.case import Case
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage
from generators import own
from workers import backends
from workers.isolate import sandbox

pytestmark = pytest.mark.slow

SOURCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.25)
        self.last = nn.Linear(8, 3)
        self.register_buffer("codes", torch.zeros(8))

    def forward(self, x):
        hidden = self.norm(self.first(x))
        {keep}
        return self.last(self.drop(hidden.tanh())), hidden.abs().mean()


def build(seed):
    return Net()


def batch(generator, rows):
    return torch.randn(rows, 6, generator=generator), torch.randint(0, 3, (rows,), generator=generator)
"""
KEEPS = "self.codes.mul_(0.5).add_(x.detach().mean(), alpha=0.5)"


def cases_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, *, by_rank: bool, keep: str = "pass"
) -> list[Case]:
    """The float32 cases of a path over two ranks, each with two steps."""
    description = described_in(folder, monkeypatch, SOURCE.replace("{keep}", keep))
    drawn = (own.case_at(description, 0, i, wanted=(path,), max_world_size=2) for i in range(200))
    plain = (
        msgspec.structs.replace(
            one,
            training=msgspec.structs.replace(one.training, steps=2),
            data=msgspec.structs.replace(one.data, batch=8),
            features=msgspec.UNSET,
        )
        for one in drawn
        if one.dtype == "float32" and one.world_size == 2
    )
    return [one for one in plain if one.model.own and one.model.own.by_rank is by_rank]


@pytest.mark.parametrize(
    ("path", "backend"), [("data_parallel", "torch_ddp"), ("fully_sharded", "torch_fsdp")]
)
def test_wrappers_agree_with_a_reference_that_has_a_batch_for_every_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, backend: str
) -> None:
    cases = cases_of(tmp_path, monkeypatch, path, by_rank=True)
    case = next(one for one in cases if backends.load(backend).unsupported(one) is None)
    assert agrees(case, backend, sandbox.run(case, backend))


def test_modules_of_such_a_model_are_compared_where_a_finding_is_located(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case, *_) = cases_of(tmp_path, monkeypatch, "data_parallel", by_rank=True)
    truth, actual = (sandbox.run(case, name, options={VARIABLE: "1"}) for name in (ORACLE, "torch_ddp"))
    assert isinstance(truth, Trace)
    run = measure_run(case, "torch_ddp", "torch", truth, actual)
    modules = {name.removeprefix(MODULE) for _, stage, name in run.measured if name.startswith(MODULE)}
    assert modules == {"0", *(f"0.{name}" for name in ("first", "norm", "drop", "drop input", "last"))}
    for stage in (Stage.FORWARD, Stage.BACKWARD):
        assert first_beyond(run, stage) == f"{stage}: no module is beyond rounding"


def test_the_whole_batch_and_a_batch_on_every_rank_give_other_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (apart, *_) = cases_of(tmp_path, monkeypatch, "data_parallel", by_rank=True)
    assert apart.model.own
    layer = msgspec.structs.replace(apart.model.own, by_rank=False)
    whole = apart.changed("model", layers=(layer,))
    outputs = []
    for case in (apart, whole):
        trace = oracle_trace(case)
        assert isinstance(trace, Trace)
        outputs.append(trace.steps[0][Stage.FORWARD, "output"].pieces[0])
    assert outputs[0].shape == outputs[1].shape
    assert abs(outputs[0] - outputs[1]).max() > 0.01


def test_a_buffer_that_changes_what_later_batches_give_leaves_the_whole_batch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = f"{KEEPS}; hidden = hidden + self.codes"
    assert cases_of(tmp_path, monkeypatch, "data_parallel", by_rank=True, keep=keep) == []
    assert cases_of(tmp_path, monkeypatch, "data_parallel", by_rank=False, keep=keep)
