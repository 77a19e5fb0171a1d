"""Small programs of operators, and made-up traces of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from samples import NOISE, cut

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.operator import Argument, Operand, Operator, Reference
from difftest.cases.layout import Layout, Mesh, Placements, replicated
from difftest.cases.model import Model
from difftest.judge.events import Events
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage


def an_operator(name: str = "add", **changes: Any) -> Operator:  # noqa: ANN401  fields of an operator
    """A call of `torch.NAME` with an operand of shape (4, 3)."""
    fields: dict[str, Any] = {
        "operator": name,
        "call": f"torch.{name}",
        "operands": {"input": Operand(shape=(4, 3))},
        "arguments": (Reference("input"),),
    }
    return Operator(**{**fields, **changes})


def a_call(
    call: str,
    operands: Mapping[str, Operand],
    *arguments: Argument,
    **fields: Any,  # noqa: ANN401  other fields of an operator
) -> Operator:
    """The operator that `call` names; its arguments are its operands where none are given."""
    given = arguments or tuple(map(Reference, operands))
    name = call.removeprefix("torch.").removeprefix("Tensor.")
    return an_operator(name, call=call, operands=operands, arguments=given, **fields)


def a_program(
    *operators: Operator,
    mesh: tuple[tuple[str, int], ...] = (("dp", 2),),
    sharded: Mapping[str, Placements] | None = None,
    **rest: Any,  # noqa: ANN401  other fields of a case
) -> Case:
    """A program, by default of one operator, on two ranks; `sharded` places what is not replicated."""
    model, where = Model(layers=operators or (an_operator(),)), Mesh(mesh)
    alone = replicated(where)
    fields = {
        "path": "operators",
        "training": Training(loss="cotangent", optimizer="none"),
        "data": Data(batch=1),
        "layout": Layout(
            mesh=where, batch=alone, parameters=dict.fromkeys(model.tensors(), alone) | dict(sharded or {})
        ),
    }
    return Case(**{**fields, **rest}, model=model)


def a_trace(case: Case, *, exact: bool = False, by: float = 0.0, events: Events | None = None) -> Trace:
    """A made-up trace of a program: one result, off by `by`; `exact` for the oracle's, with noise."""
    key = (Stage.FORWARD, "0.output")
    values = {key: np.arange(1.0, 13.0).reshape(4, 3)}
    made, dtype = (case.unsharded(), "float64") if exact else (case, case.dtype)
    noise = cut(made, [{key: NOISE * values[key]}], "float64") if exact else ()
    return Trace(
        steps=cut(made, [{key: values[key] + by}], dtype), noise=noise, events=events or Events(in_range=True)
    )
