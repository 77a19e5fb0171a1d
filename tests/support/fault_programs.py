"""Programs written by hand in which every planted fault of operators shows."""

from sample_programs import a_call, a_program

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operand, Reference
from difftest.cases.layout import Shard

S0, S1 = Shard(0), Shard(1)
CUT = {"0.input": (S0,)}
MATRIX, UNEVEN = Operand(shape=(6, 4)), Operand(shape=(5, 4))
HALVES = Operand(shape=(6,), values=(0.5, 1.25, 2.5, -3.5, 4.5, 6.5), gradient=True)
TINY = Operand(shape=(4,), values=(2.0**-110, -(2.0**-112), 2.0**-108, 2.0**-111))
WHOLE = Operand(shape=(6, 4), dtype="int64")
INDEX = Operand(shape=(3,), dtype="int64", values=(0.0, 0.0, 2.0), low=0, high=6)

PLUS = a_call("torch.add", {"input": MATRIX, "other": Operand(shape=(4,))})
PRODUCT = a_call("torch.mm", {"input": Operand(shape=(4, 5)), "other": Operand(shape=(5, 3))})
ROOT = a_call("torch.sqrt", {"input": MATRIX})
FIXED = Operand(shape=(6, 4), gradient=False)
FIXED_ROOT = a_call("torch.sqrt", {"input": FIXED})
"""Without gradients, for which DTensor lacks rules."""

TURNED = a_call("torch.transpose", {"input": MATRIX}, Reference("input"), 0, 1)


def _over(name: str, operand: Operand, dim: int) -> Case:
    return a_program(a_call(f"torch.{name}", {"input": operand}, Reference("input"), dim), sharded=CUT)


PROGRAMS = (
    a_program(PLUS, sharded=CUT),
    a_program(PLUS, sharded=CUT, dtype="bfloat16"),
    a_program(PRODUCT, sharded={"0.input": (S1,), "0.other": (S0,)}),
    *(_over(name, UNEVEN, 0) for name in ("sum", "mean", "amax", "softmax")),
    _over("logsumexp", UNEVEN, 0),
    _over("argmax", MATRIX, 1),
    _over("topk", MATRIX, 2),
    _over("cumsum", MATRIX, 1),
    a_program(ROOT, sharded=CUT),
    # XLA itself ignores NaN in amax and clamp on the CPU, so another operator of the kind comes before each.
    a_program(
        FIXED_ROOT,
        a_call("torch.maximum", {"other": FIXED}, Reference("0.output"), Reference("other")),
        sharded=CUT,
    ),
    a_program(ROOT, a_call("torch.amax", {}, Reference("0.output"), 1), sharded=CUT),
    a_program(FIXED_ROOT, a_call("torch.nn.functional.hardtanh", {}, Reference("0.output")), sharded=CUT),
    a_program(ROOT, a_call("torch.clamp", {}, Reference("0.output"), 0.5, 1.0), sharded=CUT),
    a_program(
        a_call("Tensor.mul_", {"input": MATRIX, "other": MATRIX}, form="inplace"),
        sharded={"0.input": (S0,), "0.other": (S0,)},
    ),
    a_program(TURNED, a_call("Tensor.mul_", {}, Reference("0.output"), 3.0, form="inplace"), sharded=CUT),
    a_program(a_call("torch.select", {"input": MATRIX}, Reference("input"), 1, -2), sharded=CUT),
    a_program(
        a_call(
            "torch.index_add",
            {"input": MATRIX, "index": INDEX, "source": Operand(shape=(3, 4))},
            Reference("input"),
            0,
            Reference("index"),
            Reference("source"),
        )
    ),
    a_program(
        a_call(
            "torch.scatter_add",
            {
                "input": MATRIX,
                "index": Operand(shape=(2, 4), dtype="int64", values=(0.0,) * 8),
                "source": Operand(shape=(2, 4)),
            },
            Reference("input"),
            0,
            Reference("index"),
            Reference("source"),
        )
    ),
    a_program(a_call("torch.mul", {"input": WHOLE, "other": WHOLE})),
    a_program(a_call("torch.round", {"input": HALVES})),
    a_program(a_call("torch.neg", {"input": TINY})),
    a_program(
        a_call("torch.add", {"input": Operand(shape=(3,)), "other": Operand(shape=(4,))}, rejects=True)
    ),
)
