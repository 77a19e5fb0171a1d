"""A program as a case: what follows from its operators, its layout and its numbers."""

from collections.abc import Mapping, Sequence

import msgspec

from difftest.cases.case import Case, Data, DType, Regime, Training
from difftest.cases.layers.operator import Operator
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, replicated
from difftest.cases.model import Model
from difftest.cases.options import Spelling
from generators.operators.singles import Single
from generators.operators.undefined import undefined

TRAINING = Training(loss="cotangent", optimizer="none", steps=1)


def program(  # noqa: PLR0913  the parts of a case
    operators: Sequence[Operator],
    *,
    path: str,
    mesh: Mesh,
    placements: Mapping[str, Placements],
    dtype: DType,
    regime: Regime,
    seed: int,
    spelling: Spelling | msgspec.UnsetType = msgspec.UNSET,
) -> Case:
    """The case of one program; `placements` by full name, such as `0.input`, all others replicated."""
    model = Model(layers=tuple(operators))
    everywhere = replicated(mesh)
    layout = Layout(
        mesh=mesh,
        batch=(Replicate(),) * len(mesh.axes),
        parameters={name: placements.get(name, everywhere) for name in model.tensors()},
    )
    case = assembled(model, path=path, layout=layout, dtype=dtype, regime=regime, seed=seed)
    return msgspec.structs.replace(case, spelling=spelling)


def single(call: Single, *, path: str, mesh: Mesh, seed: int) -> Case:
    """The case of a program of one operator or module."""
    return program(
        [call.operator],
        path=path,
        mesh=mesh,
        placements={f"0.{name}": own for name, own in call.placements.items()},
        dtype=call.dtype,
        regime=call.regime,
        seed=seed,
        spelling=Spelling(inference=True) if call.inference else msgspec.UNSET,
    )


def assembled(  # noqa: PLR0913  the parts of a case
    model: Model, *, path: str, layout: Layout, dtype: DType, regime: Regime, seed: int
) -> Case:
    """The case of a model of operators; each says what the documentation leaves open of its result."""
    layers = tuple(
        msgspec.structs.replace(operator, undefined=undefined(operator, dtype=dtype, regime=regime))
        for operator in model.operators.values()
    )
    return Case(
        path=path,
        model=msgspec.structs.replace(model, layers=layers),
        layout=layout,
        training=TRAINING,
        data=Data(batch=1, regime=regime),
        dtype=dtype,
        seed=seed,
    )
