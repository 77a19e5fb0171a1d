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
from difftest.cases.layout import Layout, Mesh, Shard
from difftest.cases.options import Feature
from difftest.ground.errors import UsageError
from difftest.judge.outcome import Outcome, Trace
from generators import own
from workers import backends

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

ONE_DIM = "FullyShardedDataParallel gives parameters one dim; your optimizer treats them by their shapes"
MIXED: dict[str, bool | int | float | str] = {"reduce": "float32", "output": "loss"}

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
    sources = {
        "net": SOURCE,
        "sharded": SHARDED,
        "by_element": BY_ELEMENT,
        "by_itself": BY_ITSELF,
        "unlabelled": UNLABELLED,
        **TAKING,
    }
    files = [written(work, text, f"{name}.py").name for name, text in sources.items()]
    answers = descriptions(work, [f"{file}:build" for file in files], (Mesh((("dp", 2),)),))
    return {
        name: one.description or UsageError(one.error) for name, one in zip(sources, answers, strict=True)
    }


SHARDED = SOURCE.replace("nn.Parameter(torch.tensor(0.75))", "nn.Parameter(torch.full((1,), 0.75))")
"""The same, which FSDP takes: none of its parameters lacks a dim."""

BY_ELEMENT = SHARDED.replace("Adagrad(groups", "Adagrad(parameters").replace("self.calls += 1", "pass")
BY_ELEMENT = BY_ELEMENT.replace('self.register_buffer("calls", torch.zeros(()))', "pass")
BY_ITSELF = (
    SHARDED
    + """

class Inside(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.inside = torch.optim.Adam(self.param_groups, lr=0.0625)
    def step(self):
        self.inside.step()
    def state_dict(self):
        return {"inside": self.inside.state_dict()}


def optimizer(parameters):
    return Inside(parameters)
"""
)


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


@pytest.mark.parametrize(
    ("name", "sharded", "joined"),
    [
        ("net", "FSDP does not support parameters without a dim, as 0.scale", ONE_DIM),
        ("sharded", None, ONE_DIM),
        ("by_element", None, None),
    ],
)
def test_what_fsdp_does_to_the_shapes_of_parameters_is_no_finding(
    models: Mapping[str, Description], name: str, sharded: str | None, joined: str | None
) -> None:
    description = models[name]
    drawn = (own.case_at(description, 0, i, wanted=("fully_sharded",), max_world_size=2) for i in range(99))
    case = next(one for one in drawn if one.layout.mesh.axes == (("dp_shard", 2),))
    cut = dict.fromkeys(case.layout.parameters, (Shard(0),))
    layout = msgspec.structs.replace(case.layout, parameters=cut)
    case = msgspec.structs.replace(case, layout=layout, features=msgspec.UNSET)
    given = [backends.load(backend).unsupported(case) for backend in ("torch_fsdp", "torch_fsdp1")]
    assert given == [sharded, joined]


def test_outputs_in_a_tuple_are_float32_again_behind_mixed_precision(
    models: Mapping[str, Description],
) -> None:
    case = plain(models["by_element"], Feature(name="mixed_precision", options=MIXED))
    layout = Layout(
        mesh=Mesh((("dp_shard", 2),)),
        batch=(Shard(0),),
        parameters=dict.fromkeys(case.model.parameters(), (Shard(0),)),
    )
    case = msgspec.structs.replace(case, path="fully_sharded", layout=layout)
    for backend in ("torch_fsdp", "torch_fsdp1"):
        outcome = shared({backend: case}, backend)(backend)
        assert isinstance(outcome, Trace), outcome
        shapes = {name: one.dtype for (stage, name), one in outcome.steps[0].items() if stage == "forward"}
        assert shapes == dict.fromkeys(("output", "output 1", "loss"), "float32")


def test_an_optimizer_that_saves_in_a_form_of_its_own_has_no_checkpoint_by_names(
    models: Mapping[str, Description],
) -> None:
    def drawn(name: str) -> set[str]:
        cases = (own.case_at(models[name], 0, i, wanted=("features",), max_world_size=2) for i in range(40))
        return {feature.name for case in cases for feature in case.training_features}

    assert models["by_itself"].optimizer_saved is False
    assert drawn("by_itself").isdisjoint(own.BY_STATE_DICT)
    assert "distributed_checkpoint" in drawn("sharded")
    with pytest.raises(UsageError, match=r"path .states. loads .* has no 'state' and 'param_groups'"):
        own.chosen(models["by_itself"], ("states", "features"))
