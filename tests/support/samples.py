"""Small cases, and a numpy training loop that makes their traces in place of real backends in fast tests."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.cases import draws, numbers
from difftest.cases.case import Case, Data, DType, Training
from difftest.cases.layer import Layer
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.routed_experts import HIDDEN_DIMS, RoutedExperts
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, Shard, local_slices, replicated
from difftest.cases.model import Model
from difftest.cases.pipelining import Pipeline
from difftest.cases.wrapping import Dispatch
from difftest.judge.events import Events
from difftest.judge.outcome import Failure, Sharded, Symptom, Trace
from difftest.judge.stage import Stage

Floats: TypeAlias = npt.NDArray[np.float64]
Key: TypeAlias = tuple[Stage, str]
Steps: TypeAlias = list[dict[Key, Floats]]
Spoil: TypeAlias = Callable[[int, Key, Floats], Floats]

EXACT = Data(batch=4, regime="exact")
NOISE = 1e-7
"""The rounding noise that the made-up oracle reports, relative to a tensor's root mean square."""

LINEAR: tuple[Layer, ...] = (Linear(inputs=4, outputs=2),)
DEEP: tuple[Layer, ...] = (
    Linear(inputs=4, outputs=2),
    Activation(function="relu"),
    Linear(inputs=2, outputs=2, bias=False),
)


def a_case(  # noqa: PLR0913  everything has a default
    layers: tuple[Layer, ...] = LINEAR,
    *,
    mesh: tuple[tuple[str, int], ...] = (("dp", 2),),
    batch: Placements | None = None,
    sharded: Mapping[str, Placements] | None = None,
    training: Training | None = None,
    fed: Data | None = None,
    sequence: int = 0,
    **rest: Any,  # noqa: ANN401  other fields of a case
) -> Case:
    """A case, by default data parallel over two ranks; `sharded` places what is not replicated."""
    model, where = Model(layers=layers, sequence=sequence), Mesh(mesh)
    alone = replicated(where)
    layout = Layout(
        mesh=where,
        batch=batch or (Shard(0), *alone[1:]),
        parameters=dict.fromkeys(model.parameters(), alone) | dict(sharded or {}),
    )
    return Case(
        **{"path": "data_parallel", "training": training or Training(), "data": fed or Data(batch=4), **rest},
        model=model,
        layout=layout,
    )


def tensor_parallel_case(**rest: Any) -> Case:  # noqa: ANN401
    """A case whose weight of 3 rows is sharded by rows over two ranks, unevenly; its batch is replicated."""
    layers = (Linear(inputs=4, outputs=3),)
    cut = {"0.weight": (Shard(0),), "0.bias": (Shard(0),)}
    return a_case(
        layers, mesh=(("tp", 2),), batch=(Replicate(),), sharded=cut, path="tensor_parallel", **rest
    )


def pipeline_case(**options: Any) -> Case:  # noqa: ANN401
    """A case of two Linear layers, each a stage on a rank of its own; `options` are those of the pipeline."""
    layers = (Linear(inputs=4, outputs=3), Linear(inputs=3, outputs=3))
    case = a_case(layers, mesh=(("pp", 2),), batch=(Replicate(),), path="pipelines")
    given: dict[str, Any] = {"cuts": (1,), "microbatches": 2, **options}
    return msgspec.structs.replace(case, pipeline=Pipeline(**given))


def experts_case(*, dispatch: Dispatch | None = None, **fields: Any) -> Case:  # noqa: ANN401
    """A case of four experts, two on each rank of `ep`, behind a Linear layer; `fields` are theirs."""
    experts = RoutedExperts(**{"width": 4, "hidden": 4, "experts": 4, **fields})
    cut = {f"1.{name}": (Shard(0),) for name in HIDDEN_DIMS}
    return a_case(
        (Linear(inputs=4, outputs=4), experts),
        mesh=(("ep", 2),),
        sharded=cut,
        path="experts",
        dispatch=dispatch or Dispatch(),
    )


def train(case: Case, dtype: DType | None = None, order: np.random.Generator | None = None) -> Steps:
    """Trains layers of Linear and relu on the squared error by SGD; the tensors of every step.

    It computes in float64, or rounds the result of every operation to `dtype`. `order` shuffles every sum.
    """
    parameters = dict(numbers.weights(case))
    steps: Steps = []
    arithmetic = _Arithmetic(dtype, order)
    for step in range(case.training.steps):
        tensors, gradients = _gradients(case, parameters, numbers.batch(case, step), arithmetic)
        rate = case.training.learning_rate
        parameters = {
            name: arithmetic.rounded(value - arithmetic.rounded(rate * gradients[name]))
            for name, value in parameters.items()
        }
        tensors |= {(Stage.BACKWARD, name): gradients[name] for name in parameters}
        tensors |= {(Stage.UPDATE, name): value for name, value in parameters.items()}
        steps.append(tensors)
    return steps


def oracle(case: Case, noise: float = NOISE) -> Trace:
    """The trace of a made-up oracle."""
    alone = case.unsharded()
    steps = train(case)
    deviations = [
        {key: np.full(value.shape, noise * np.sqrt(np.mean(value**2))) for key, value in step.items()}
        for step in steps
    ]
    environment = {"torch": "0"}
    return Trace(
        steps=cut(alone, steps, "float64"),
        noise=cut(alone, deviations, "float64"),
        environment=environment,
        events=Events(in_range=True),
    )


def candidate(case: Case, spoil: Spoil | None = None) -> Trace:
    """The trace of a made-up candidate: the oracle's numbers in the case's dtype, sharded as its layout says.

    `spoil(step, key, value)` changes a tensor before it is rounded and sharded.
    """
    steps = [
        {key: spoil(step, key, value) if spoil else value for key, value in tensors.items()}
        for step, tensors in enumerate(train(case))
    ]
    return Trace(steps=cut(case, steps, case.dtype), environment={"torch": "1"})


def cut(case: Case, steps: Steps, dtype: str) -> tuple[Mapping[Key, Sharded], ...]:
    """Whole tensors as the ranks of the case's mesh hold them."""
    return tuple({key: _cut(case, key, value, dtype) for key, value in step.items()} for step in steps)


def of_rank(trace: Trace, rank: int) -> Trace:
    """The part of a trace that one rank holds."""
    steps = tuple(
        {key: dataclasses.replace(tensor, pieces={rank: tensor.pieces[rank]}) for key, tensor in step.items()}
        for step in trace.steps
    )
    return dataclasses.replace(trace, steps=steps)


def with_pieces(trace: Trace, step: int, key: Key, pieces: Mapping[int, Floats]) -> Trace:
    """The trace with other pieces of one tensor."""
    return with_tensor(
        trace,
        step,
        key,
        dataclasses.replace(trace.steps[step][key], pieces={**trace.steps[step][key].pieces, **pieces}),
    )


def with_tensor(trace: Trace, step: int, key: Key, tensor: Sharded | None) -> Trace:
    """The trace with one tensor replaced, or left out."""
    changed = (
        {k: t for k, t in trace.steps[step].items() if k != key}
        if tensor is None
        else {**trace.steps[step], key: tensor}
    )
    return dataclasses.replace(trace, steps=(*trace.steps[:step], changed, *trace.steps[step + 1 :]))


def a_failure(symptom: Symptom = Symptom.EXCEPTION, **changes: Any) -> Failure:  # noqa: ANN401
    """A run that raised while it was placed."""
    fields = {
        "stage": Stage.PLACE,
        "step": 0,
        "kind": "RuntimeError",
        "message": "size 3 of dim 1",
        "frame": "/opt/torch/api.py:split",
    }
    return Failure(**{"symptom": symptom, **fields, **changes})


def wrong_at(stage: Stage, name: str, by: float = 0.5, step: int = 0) -> Spoil:
    """Spoils one element of one tensor from `step` on."""

    def spoil(at: int, key: Key, value: Floats) -> Floats:
        spoiled = np.array(value)
        if key == (stage, name) and at >= step:
            spoiled.flat[-1] += by
        return spoiled

    return spoil


class _Arithmetic:
    """Sums and products with every result rounded, sums in a shuffled order."""

    def __init__(self, dtype: DType | None, order: np.random.Generator | None) -> None:
        self._dtype, self._order = dtype, order

    def rounded(self, values: Floats) -> Floats:
        return draws.round_to(self._dtype, values) if self._dtype else values

    def total(self, terms: Floats) -> Floats:
        """The sum over the first dim, one after the other."""
        order = self._order.permutation(len(terms)) if self._order else range(len(terms))
        whole = np.zeros(terms.shape[1:])
        for index in order:
            whole = self.rounded(whole + terms[index])
        return whole

    def product(self, left: Floats, right: Floats) -> Floats:
        """`left @ right`."""
        return self.total(self.rounded(left.T[:, :, np.newaxis] * right[:, np.newaxis, :]))


def _gradients(
    case: Case, parameters: Mapping[str, Floats], fed: numbers.Batch, exactly: _Arithmetic
) -> tuple[dict[Key, Floats], dict[str, Floats]]:
    values, entered = np.asarray(fed.inputs, dtype=np.float64), []
    for index, layer in enumerate(case.model.layers):
        entered.append(values)
        if isinstance(layer, Linear):
            values = exactly.product(values, parameters[f"{index}.weight"].T)
            values = exactly.rounded(values + parameters[f"{index}.bias"]) if layer.bias else values
        else:
            values = np.maximum(values, 0.0)
    wrong = exactly.rounded(values - fed.targets)
    loss = exactly.total(exactly.rounded(wrong**2).reshape(-1)) / fed.count
    tensors = {(Stage.FORWARD, "output"): values, (Stage.FORWARD, "loss"): loss}
    gradient, gradients = exactly.rounded(wrong * (2.0 / fed.count)), {}
    for index, layer in reversed(list(enumerate(case.model.layers))):
        if isinstance(layer, Linear):
            gradients[f"{index}.weight"] = exactly.product(gradient.T, entered[index])
            if layer.bias:
                gradients[f"{index}.bias"] = exactly.total(gradient)
            gradient = exactly.product(gradient, parameters[f"{index}.weight"])
        else:
            gradient = gradient * (entered[index] > 0.0)
    return tensors, gradients


def _cut(case: Case, key: Key, value: Floats, dtype: str) -> Sharded:
    mesh, (_, name) = case.layout.mesh, key
    usual = {"output": case.layout.batch, **case.layout.parameters}  # a program's results are whole
    placements = usual.get(name, replicated(mesh))
    held = "float32" if name == "loss" and dtype != "float64" else dtype
    rounded = value if dtype == "float64" else draws.round_to(case.dtype, value)
    pieces = {
        rank: np.array(rounded[local_slices(value.shape, placements, mesh, rank)])
        for rank in range(mesh.world_size)
    }
    return Sharded(shape=value.shape, dtype=held, placements=placements, pieces=pieces)
