"""Trainings that must be equal: over more ranks, over ranks in another order, resumed, with an idle layer.

The changed case is compared with the oracle of the original, which knows nothing of the change.
"""

import dataclasses
from collections.abc import Callable, Mapping
from itertools import islice

import msgspec
import pytest
from installed_packages import needs
from sharded_cases import GRID, MEGATRON, S0, TRANSFORMER, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.feature import has
from difftest.cases.features import save_and_load
from difftest.cases.layers.dropout import Dropout
from difftest.cases.layout import Layout, Mesh, Placements
from difftest.cases.model import Model
from difftest.cases.options import Feature
from difftest.cases.twins import twin
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome, Trace
from generators.cases import case_at
from workers import backends
from workers.isolate import sandbox

pytestmark = pytest.mark.slow

STEPS, RESUMED_AT = 3, 2
SEED, DRAWN = 57, 6
TRAINING = Training(optimizer="adam", steps=STEPS, learning_rate=2.0**-7, loss="cross_entropy")
ORACLE = "oracle"


def original() -> Case:
    """A transformer over four ranks, data parallel."""
    return a_sharded_case(model=TRANSFORMER, rows=16, training=TRAINING)


def on_a_grid() -> Case:
    """A perceptron, data parallel over one axis and tensor parallel over the other."""
    cut: dict[str, Placements] = {"": (R, R)}
    cut |= {name: (R, placement) for name, placement in MEGATRON.items()}
    training = msgspec.structs.replace(TRAINING, loss="mse")
    return a_sharded_case(GRID, (S0, R), cut, training=training)


def over_more_ranks(case: Case) -> Case:
    """Twice as many ranks, each with half the rows."""
    ((name, ranks), *others) = case.layout.mesh.axes
    mesh = Mesh(((name, 2 * ranks), *others))
    return case.changed("layout", mesh=mesh)


def over_permuted_ranks(case: Case) -> Case:
    """The axes in the other order, so that other ranks have each part."""
    layout = case.layout
    parameters = {name: placements[::-1] for name, placements in layout.parameters.items()}
    turned = Layout(mesh=Mesh(layout.mesh.axes[::-1]), batch=layout.batch[::-1], parameters=parameters)
    return msgspec.structs.replace(case, layout=turned)


def resumed(case: Case) -> Case:
    """Saved and loaded between two steps."""
    return msgspec.structs.replace(
        case, features=(Feature(name="save_and_load", options={"step": RESUMED_AT}),)
    )


def resumed_somewhere(case: Case) -> Case:
    """Saved and loaded before a step that the case's seed draws; as it is where it cannot be."""
    choices = None if has(case, "distributed_checkpoint") else save_and_load.Options.drawn(case)
    if choices is None or has(case, "save_and_load"):
        return case
    steps = choices["step"]
    resume = Feature(name="save_and_load", options={"step": steps[case.seed % len(steps)]})
    return msgspec.structs.replace(case, features=(*case.training_features, resume))


def with_an_idle_layer(case: Case) -> Case:
    """A dropout of rate 0 at the end."""
    layers = (*case.model.layers, Dropout(width=case.model.outputs, share=0.0))
    model = Model(layers=layers, sequence=case.model.sequence)
    return msgspec.structs.replace(case, model=model)


RELATIVES: Mapping[str, tuple[Case, Callable[[Case], Case], str]] = {
    "more ranks, DDP": (original(), over_more_ranks, "torch_ddp"),
    "permuted ranks, DTensor": (on_a_grid(), over_permuted_ranks, "torch_dtensor"),
    "resumed, DDP": (original(), resumed, "torch_ddp"),
    "resumed, in float64": (twin(original()), resumed, "torch_eager"),
    "an idle layer, DDP": (original(), with_an_idle_layer, "torch_ddp"),
    "an idle layer, in float64": (twin(original()), with_an_idle_layer, "torch_eager"),
}
"""A case, the change that must not matter, and what runs the changed case."""


@pytest.mark.parametrize("name", RELATIVES)
def test_a_training_that_must_be_equal_agrees_with_the_oracle_of_the_original(name: str) -> None:
    needs("torch")
    case, changed, backend = RELATIVES[name]
    relative = changed(case)
    assert relative.id != case.id
    assert not backends.load(backend).unsupported(relative)
    truth = sandbox.run(case, ORACLE)
    comparison = compared(relative, backend, truth, sandbox.run(relative, backend))
    assert comparison.verdict == "agree", comparison.divergences[:1] or comparison.reason


@pytest.mark.parametrize("name", ["resumed, in float64", "an idle layer, in float64"])
def test_a_training_with_another_rate_does_not_agree(name: str) -> None:
    needs("torch")
    case, changed, backend = RELATIVES[name]
    other = msgspec.structs.replace(TRAINING, learning_rate=2.0**-6)
    relative = msgspec.structs.replace(changed(case), training=other)
    comparison = compared(relative, backend, sandbox.run(case, ORACLE), sandbox.run(relative, backend))
    assert comparison.verdict == "diverge"


@pytest.mark.parametrize("changed", [resumed_somewhere, with_an_idle_layer])
def test_drawn_trainings_with_a_change_that_must_not_matter_are_equal(
    changed: Callable[[Case], Case],
) -> None:
    needs("torch")
    drawn = (twin(case_at(SEED, index, paths=("features",), max_world_size=2)) for index in range(100))
    fitting = (case for case in drawn if changed(case) != case)
    entry, agreed = read_ledger().entry, 0
    for case in islice(fitting, DRAWN):
        relative = changed(case)
        truth = sandbox.run(case, ORACLE)
        comparison = compared(relative, "torch_eager", truth, sandbox.run(relative, "torch_eager"))
        agreed += comparison.verdict == "agree"
        unknown = [one for one in comparison.divergences[:1] if not entry(one, relative, utc_today())]
        assert comparison.verdict == "agree" or not unknown, (case.id, unknown)
    assert agreed > DRAWN / 2


def compared(relative: Case, backend: str, truth: Outcome, actual: Outcome) -> Comparison:
    """The comparison with the oracle of the original, which is given no mask of an idle layer."""
    assert isinstance(actual, Trace), actual
    given = {"numbers": truth.environment["numbers"]}
    alike = dataclasses.replace(actual, environment={**actual.environment, **given})
    return compare(relative, backend, backends.load(backend).SIDE, truth, alike)
