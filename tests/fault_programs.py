"""Programs written by hand in which every planted fault of operators shows."""

from programs import S0, S1, a_program, an_operator, tensor

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operand

CUT = {"0.input": (S0,)}
MATRIX, UNEVEN = Operand(shape=(6, 4)), Operand(shape=(5, 4))
HALVES = Operand(shape=(6,), values=(0.5, 1.25, 2.5, -3.5, 4.5, 6.5), gradient=True)
TINY = Operand(shape=(4,), values=(2.0**-110, -(2.0**-112), 2.0**-108, 2.0**-111))
WHOLE = Operand(shape=(6, 4), dtype="int64")
INDEX = Operand(shape=(3,), dtype="int64", values=(0.0, 0.0, 2.0), low=0, high=6)

PLUS = an_operator("torch.add", {"input": MATRIX, "other": Operand(shape=(4,))})
PRODUCT = an_operator("torch.mm", {"input": Operand(shape=(4, 5)), "other": Operand(shape=(5, 3))})
ROOT = an_operator("torch.sqrt", {"input": MATRIX})
TURNED = an_operator("torch.transpose", {"input": MATRIX}, tensor("input"), 0, 1)


def _over(name: str, operand: Operand, dim: int) -> Case:
    return a_program(an_operator(f"torch.{name}", {"input": operand}, tensor("input"), dim), placements=CUT)


PROGRAMS = (
    a_program(PLUS, placements=CUT),
    a_program(PLUS, placements=CUT, dtype="bfloat16"),
    a_program(PRODUCT, placements={"0.input": (S1,), "0.other": (S0,)}),
    *(_over(name, UNEVEN, 0) for name in ("sum", "mean", "amax", "softmax")),
    _over("logsumexp", UNEVEN, 0),
    _over("argmax", MATRIX, 1),
    _over("topk", MATRIX, 2),
    _over("sort", MATRIX, 1),
    _over("cumsum", MATRIX, 1),
    a_program(ROOT, placements=CUT),
    a_program(ROOT, an_operator("torch.amax", {}, tensor("0.output"), 1), placements=CUT),
    a_program(ROOT, an_operator("torch.clamp", {}, tensor("0.output"), 0.5, 1.0), placements=CUT),
    a_program(
        an_operator("Tensor.mul_", {"input": MATRIX, "other": MATRIX}, form="inplace"),
        placements={"0.input": (S0,), "0.other": (S0,)},
    ),
    a_program(
        TURNED, an_operator("Tensor.mul_", {}, tensor("0.output"), 3.0, form="inplace"), placements=CUT
    ),
    a_program(an_operator("torch.select", {"input": MATRIX}, tensor("input"), 1, -2), placements=CUT),
    a_program(
        an_operator(
            "torch.index_add",
            {"input": MATRIX, "index": INDEX, "source": Operand(shape=(3, 4))},
            tensor("input"),
            0,
            tensor("index"),
            tensor("source"),
        )
    ),
    a_program(
        an_operator(
            "torch.scatter_add",
            {
                "input": MATRIX,
                "index": Operand(shape=(2, 4), dtype="int64", values=(0.0,) * 8),
                "source": Operand(shape=(2, 4)),
            },
            tensor("input"),
            0,
            tensor("index"),
            tensor("source"),
        )
    ),
    a_program(an_operator("torch.mul", {"input": WHOLE, "other": WHOLE})),
    a_program(an_operator("torch.round", {"input": HALVES})),
    a_program(an_operator("torch.neg", {"input": TINY})),
    a_program(
        an_operator("torch.add", {"input": Operand(shape=(3,)), "other": Operand(shape=(4,))}, rejects=True)
    ),
)
