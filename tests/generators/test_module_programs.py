"""Torch's modules as programs of one call: which there are, how they are drawn, that backends run them."""

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees

from difftest.cases.case import Case
from difftest.cases.layers.module import Module, function_called
from difftest.cases.layout import Shard
from difftest.reduce.simplifications import simplifications
from generators.cases import case_at
from generators.operators.table import all_modules, modules
from workers.isolate import sandbox


def drawn(index: int) -> Case:
    return case_at(3, index, paths=("modules",), max_world_size=2)


def layer_of(case: Case) -> Module:
    (layer,) = case.model.layers
    assert isinstance(layer, Module)
    return layer


def test_most_of_the_database_is_usable_and_the_rest_says_why() -> None:
    assert len(all_modules()) == 113
    assert len(modules()) >= 100
    assert all(entry.excluded for entry in all_modules().values() if not entry.samples)
    modes = {
        (entry.name, sample.made.training) for entry in modules() for sample in entry.samples if sample.made
    }
    assert {("nn.BatchNorm2d", True), ("nn.BatchNorm2d", False)} <= modes


def test_a_round_has_every_module_and_cuts_parameters_and_buffers() -> None:
    cases = [drawn(index) for index in range(len(modules()))]
    assert len({layer_of(case).title for case in cases}) == len(modules())
    norms = [case for case in cases if layer_of(case).title == "nn.BatchNorm1d"]
    assert all(
        case.layout.parameters["0.running_mean"] == (Shard(0),) for case in norms if case.world_size > 1
    )
    assert all(Case.from_json(case.to_json()) == case for case in cases)


@pytest.mark.long  # imports torch
def test_a_module_names_the_function_of_torch_that_it_calls() -> None:
    functional = pytest.importorskip("torch.nn.functional", reason="needs torch")
    called = {entry.name: function_called(entry.name) for entry in modules()}
    functions = {name for name in called.values() if name.startswith("nn.functional.")}
    assert len(functions) > 60
    assert all(hasattr(functional, name.rpartition(".")[2]) for name in functions)
    assert called["nn.PReLU"] == "nn.functional.prelu"
    assert called["nn.GRUCell"] == "nn.GRUCell"
    assert called["nn.ZeroPad2d"] == "nn.ZeroPad2d"


def test_state_without_an_operand_is_refused() -> None:
    layer = layer_of(drawn(0))
    lost = msgspec.structs.replace(layer.made, state={"weight": "nowhere"})
    assert "no operand nowhere" in msgspec.structs.replace(layer, made=lost).contradiction()
    assert not layer.contradiction()


def test_a_reduction_keeps_the_state() -> None:
    case = next(one for one in map(drawn, range(200)) if layer_of(one).made.state)
    kept = set(layer_of(case).made.state.values())
    simpler = [one for simplify in simplifications() for _, one in simplify(case)]
    assert simpler
    assert all(kept <= set(layer_of(one).operands) for one in simpler)


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize(
    ("module", "backend"),
    [("nn.Linear", "torch_dtensor"), ("nn.GroupNorm", "xla_spmd"), ("nn.LSTM", "xla_spmd")],
)
def test_a_module_in_training_agrees_where_its_tensors_are_cut(module: str, backend: str) -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = next(
        one
        for one in map(drawn, range(9 * len(modules())))
        if layer_of(one).title == module and layer_of(one).made.training and one.world_size == 2
        if not one.forms.inference
    )
    assert agrees(case, backend, sandbox.run(case, backend))
