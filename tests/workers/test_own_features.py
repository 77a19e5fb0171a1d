"""Features of training on models as people bring them: with dropout, counting buffers and groups."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from own_models import descriptions, written
from real_runs import agrees, oracle_trace, shared

from difftest.cases.case import Case
from difftest.cases.described import Description
from difftest.cases.features import moved_checkpoint
from difftest.cases.layers.own import Own
from difftest.cases.layout import Mesh
from difftest.cases.options import Feature
from difftest.ground.errors import UsageError
from difftest.judge.outcome import Outcome
from generators import own

pytestmark = pytest.mark.slow

SOURCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(6, 8), nn.Dropout(0.25), nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.tensor(0.75))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        hidden = self.drop(self.first(x).tanh())
        return self.last(hidden) * self.scale, hidden


def build(seed):
    return Net()


def optimizer(parameters):
    decayed = [one for one in parameters if one.dim() > 1]
    others = [one for one in parameters if one.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.5}, {"params": others}]
    return torch.optim.Adagrad(groups, lr=0.0625)


def batch(generator, rows):
    return torch.randn(rows, 6, generator=generator), torch.randint(0, 3, (rows,), generator=generator)
"""

FEATURES: Mapping[str, dict[str, bool | int | float | str]] = {
    "gradient_scaler": {"step": 1},
    "uneven_inputs": {"batches": 1, "first": False, "ranks": 1, "shrinking": True},
    "autocast": {},
    "save_and_load": {"step": 1},
    "moved_checkpoint": {"step": 1, "layout": "columns", "files": "files", "wide": False},
}

LABELLED = """
import torch
from torch import nn
from torch.nn import functional


class Labelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(12, 8), nn.Linear(8, 3)

    def forward(self, {arguments}):
        {unpacked}
        logits = self.head(self.table(tokens).mean(1))
        return {{"loss": functional.cross_entropy(logits, labels) * 0.5, "logits": logits}}


def build(seed):
    return Labelled()


def batch(generator, rows):
    tokens = torch.randint(0, 12, (rows, 4), generator=generator)
    return {{"tokens": tokens, "{labels}": torch.randint(0, 3, (rows,), generator=generator)}}
"""

TAKING = {
    "keywords": LABELLED.format(arguments="tokens, labels=None", unpacked="pass", labels="labels"),
    "a_dict": LABELLED.format(
        arguments="batch", unpacked="tokens, labels = batch['tokens'], batch['labels']", labels="labels"
    ),
}
UNLABELLED = LABELLED.format(arguments="tokens, classes", unpacked="labels = classes", labels="classes")


@pytest.fixture(scope="module")
def models(work: Path) -> Mapping[str, Description | UsageError]:
    """What is known of each model, or why nothing is; one process describes them all."""
    sources = {"net": SOURCE, **TAKING, "unlabelled": UNLABELLED}
    files = [written(work, text, f"{name}.py").name for name, text in sources.items()]
    answers = descriptions(work, [f"{file}:build" for file in files], (Mesh((("dp", 2),)),))
    return {
        name: one.description or UsageError(one.error) for name, one in zip(sources, answers, strict=True)
    }


def plain(description: Description | UsageError, *features: Feature) -> Case:
    """A data-parallel case over two ranks in float32, of two steps in one part, with these features."""
    assert isinstance(description, Description), description
    drawn = (
        own.case_at(description, 0, number, wanted=("data_parallel",), max_world_size=2)
        for number in range(99)
    )
    case = next(one for one in drawn if one.dtype == "float32")
    training = msgspec.structs.replace(case.training, steps=2, accumulation=1, clip_norm=None)
    data = msgspec.structs.replace(case.data, batch=6)
    return msgspec.structs.replace(case, training=training, data=data, features=features or msgspec.UNSET)


@pytest.fixture(scope="module")
def on_ddp(models: Mapping[str, Description]) -> Callable[[str], tuple[Case, Outcome]]:
    """Cases by feature with what came of them: the runs share processes."""
    cases = {
        name: plain(models["net"], Feature(name=name, options=options)) for name, options in FEATURES.items()
    }
    outcome = shared(cases, "torch_ddp")
    return lambda name: (cases[name], outcome(name))


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_changes_nothing_that_it_should_not(
    on_ddp: Callable[[str], tuple[Case, Outcome]], name: str
) -> None:
    """Passes beside the steps move no mask and no buffer, and a checkpoint keeps groups and their state."""
    case, outcome = on_ddp(name)
    assert agrees(case, "torch_ddp", outcome)
    assert oracle_trace(case).events.in_range


def test_numbers_without_a_dim_are_not_to_be_sharded_by_fully_shard(
    models: Mapping[str, Description],
) -> None:
    """It refuses them: a checkpoint of such a model does not go through it."""
    case = plain(models["net"])
    drawn = moved_checkpoint.Options.drawn(case)
    assert drawn
    assert drawn["layout"] == ("whole", "columns", "grid")
    layer = case.model.own
    assert layer
    changed = msgspec.structs.replace(layer, parameters={**layer.parameters, "scale": (1,)})
    other = msgspec.structs.replace(case, model=msgspec.structs.replace(case.model, layers=(changed,)))
    drawn = moved_checkpoint.Options.drawn(other)
    assert drawn
    assert drawn["layout"] == ("whole", "columns", "sharded", "grid", "hybrid")


@pytest.mark.parametrize("taking", TAKING)
def test_a_batch_may_be_a_dict_with_labels_of_which_the_model_computes_the_loss(
    models: Mapping[str, Description], taking: str
) -> None:
    case = plain(models[taking])
    layer = case.model.own
    assert isinstance(layer, Own)
    assert layer.inputs == ("tokens", "labels")
    assert layer.takes_dict is (taking == "a_dict")
    assert (case.training.loss, layer.rowwise, layer.fed_dict) == ("own", True, True)
    (run,) = (shared({taking: case}, "torch_ddp")(taking),)
    assert agrees(case, "torch_ddp", run)


def test_a_dict_without_labels_is_refused_with_what_is_allowed(models: Mapping[str, object]) -> None:
    refused = models["unlabelled"]
    assert isinstance(refused, UsageError)
    assert str(refused) == (
        "batch returns dict of 'tokens', 'classes'; needed: a tuple (inputs, targets), or a dict of inputs "
        "with the targets as 'labels'"
    )
