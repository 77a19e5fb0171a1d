"""Programs written by hand: one for each thing that an operator can be."""

from collections.abc import Mapping

from difftest.cases.case import Case, Data, DType, Training
from difftest.cases.layers.operator import Argument, Operand, Operator, Reference
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, Shard
from difftest.cases.model import Model

R, S0, S1 = Replicate(), Shard(0), Shard(1)
FLAT = Mesh((("dp", 2),))
GRID = Mesh((("dp", 2), ("tp", 2)))


def tensor(name: str) -> Reference:
    """A tensor among the arguments."""
    return Reference(name)


def an_operator(
    call: str, operands: Mapping[str, Operand], *arguments: Argument, **fields: object
) -> Operator:
    """The operator that `call` names; its arguments are its operands where none are given."""
    given = arguments or tuple(Reference(name) for name in operands)
    name = call.removeprefix("torch.").removeprefix("Tensor.")
    return Operator(operator=name, call=call, operands=operands, arguments=given, **fields)  # type: ignore[arg-type]


def a_program(
    *operators: Operator,
    placements: Mapping[str, Placements] | None = None,
    mesh: Mesh = FLAT,
    dtype: DType = "float32",
    seed: int = 1,
) -> Case:
    """A program whose operands have these placements, by default replicas."""
    model, whole = Model(layers=operators), (R,) * len(mesh.axes)
    chosen = placements or {}
    layout = Layout(
        mesh=mesh, batch=whole, parameters={name: chosen.get(name, whole) for name in model.tensors()}
    )
    training = Training(loss="cotangent", optimizer="none", steps=1)
    return Case(
        path="operators",
        model=model,
        layout=layout,
        training=training,
        data=Data(batch=1),
        dtype=dtype,
        seed=seed,
    )
