"""Scripts of programs: short, valid Python, with the operator's own call; one is run."""

import ast
import itertools
from dataclasses import replace

import pytest
from forked_scripts import run_forked
from sample_programs import a_program, an_operator

from difftest.cases.case import Case
from difftest.cases.layers.operator import Items, Named, Operand, Reference
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Spelling
from difftest.ground.errors import UsageError
from difftest.judge.checks import ScriptKind
from difftest.judge.stage import Stage
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render
from reports.reproducer.templates import PROGRAMS, backends, declares

MOST_LINES = 40
GRADIENT = ".requires_grad_()"
CHAIN = a_program(
    an_operator(
        "index_select",
        operands={
            "input": Operand(shape=(3, 2), memory="transposed"),
            "index": Operand(shape=(2,), dtype="int64", values=(0, 2)),
            "mask": Operand(shape=(2,), dtype="bool", values=(1, 0)),
            "empty": Operand(shape=(0, 2), dtype="float64"),
        },
        arguments=(Reference("input"), 0, Reference("index")),
    ),
    an_operator(
        "add_",
        call="Tensor.add_",
        form="inplace",
        operands={"other": Operand(shape=(2,), values=(0.5, -2))},
        arguments=(Reference("0.output"), Reference("other")),
        options={"alpha": 2},
    ),
    an_operator(
        "stack",
        operands={"out": Operand(shape=(2, 2, 2), gradient=False)},
        form="out",
        arguments=(Items(items=(Reference("0.output"), Reference("1.output"))),),
    ),
    an_operator(
        "to",
        call="Tensor.to",
        operands={},
        arguments=(Reference("2.output"), Named(kind="dtype", text="float")),
    ),
    an_operator("T", call="Tensor.mT", operands={}, arguments=(Reference("0.input"),)),
    mesh=(("dp", 2), ("tp", 2)),
    sharded={"0.input": (Shard(0), Replicate()), "0.index": (Replicate(), Shard(0))},
)


def script(case: Case, backend: str, kind: ScriptKind = "numbers", **fields: object) -> str:
    results = {"0.output": "float32"}
    fault = Fault(kind=kind, step=0, **{"stage": Stage.FORWARD, "results": results, **fields})  # type: ignore[arg-type]
    assert refusal(case, backend) is None
    return render(case, backend, fault, "a title")


FAULTS_OF_PROGRAMS: tuple[tuple[ScriptKind, dict[str, object]], ...] = (
    ("numbers", {"tensor": "0.output", "tolerance": 0.5}),
    ("numbers", {"tensor": "loss", "tolerance": 0.5}),
    ("numbers", {"tensor": "0.input", "tolerance": 0.5, "stage": Stage.BACKWARD}),
    ("numbers", {"tensor": "0.input", "tolerance": 0.5, "stage": Stage.UPDATE}),
    ("nonfinite", {"tensor": "0.output"}),
    ("shape", {"tensor": "0.output"}),
    ("raises", {"failure": "RuntimeError", "needle": "a message", "stage": Stage.BACKWARD}),
    ("crash", {"failure": "SIGABRT", "needle": "a message"}),
    ("hang", {"failure": "hang"}),
)


def test_a_script_is_short_and_valid_python(subtests: pytest.Subtests) -> None:
    lengths = ((a_program(), MOST_LINES), (CHAIN, 2 * MOST_LINES))
    ordinary = [name for name in backends(PROGRAMS) if not declares(name, "of_twins")]
    every = itertools.product(ordinary, lengths, FAULTS_OF_PROGRAMS)
    for backend, (case, most), (kind, fields) in every:
        with subtests.test(backend=backend, case=case.id, kind=kind, fields=fields):
            text = script(case, backend, kind, **fields)
            ast.parse(text)
            assert text.count("\n") <= most
            assert "difftest" not in text


def test_a_chain_is_written_as_a_user_writes_it() -> None:
    text = script(CHAIN, "torch_dtensor", tensor="2.output")
    for line in (
        "input_0 = input_0.mT.clone(memory_format=torch.contiguous_format).mT",
        "index_0 = place(torch.tensor([0, 2], dtype=torch.int64), [Replicate(), Shard(0)])",
        "mask_0 = place(torch.tensor([True, False], dtype=torch.bool), [Replicate(), Replicate()])",
        "empty_0 = place(torch.empty((0, 2), dtype=torch.float64), [Replicate(), Replicate()])" + GRADIENT,
        "other_1 = place(torch.tensor([0.5, -2.0], dtype=torch.float32), [Replicate(), Replicate()])"
        + GRADIENT,
        "other_1 = other_1.clone()",
        "output_0 = torch.index_select(input_0, 0, index_0)",
        "output_1 = output_0.add_(other_1, alpha=2)",
        "output_2 = torch.stack([output_0, output_1], out=out_2)",
        "output_3 = output_2.to(torch.float32)",
        "output_4 = input_0.mT",
        "return output_2",
    ):
        assert f"    {line}\n" in text
    assert "('dp', None)" in script(CHAIN, "xla_spmd", tensor="2.output")


@pytest.mark.parametrize(
    "odd",
    [
        an_operator(call="torch.add(exit())"),
        an_operator(call="torch.load"),
        an_operator(call="torch.ops.aten.from_file"),
        an_operator(call="torch.os.system"),
        an_operator(call="Tensor.__class__"),
        an_operator(call="torch.add\n"),
        an_operator(options={"x=exit(), y": 1}),
        an_operator(arguments=(Reference("input"), Named(kind="dtype", text="x, exit()"))),
        an_operator(operands={"input": Operand(shape=(4, 3)), "x = exit(); y": Operand(shape=(2,))}),
    ],
    ids=["call", "load", "aten", "module", "dunder", "line", "option", "dtype", "operand"],
)
def test_a_case_with_a_text_that_is_no_name_is_refused(odd: object) -> None:
    with pytest.raises(UsageError, match="matching regex"):
        Case.from_json(a_program(odd).to_json())  # type: ignore[arg-type]


def test_a_wrong_shape_is_shown_without_gathering_the_tensor() -> None:
    """Ranks whose shards do not fit one another cannot gather them: gloo aborts."""
    case = a_program(an_operator("neg", operands={"input": Operand(shape=(4, 3))}))
    shown = Fault(kind="shape", stage=Stage.FORWARD, step=0, tensor="0.output")
    assert "full_tensor" not in render(case, "torch_dtensor", shown, "a shape")
    assert "full_tensor" in render(case, "torch_dtensor", replace(shown, kind="nonfinite"), "numbers")


def test_a_backend_without_a_template_says_which_there_are() -> None:
    there = "torch_dtensor, xla_annotated, xla_replica, xla_spmd"
    assert f"there are: {there}" in str(refusal(a_program(), "xla_ddp"))


@pytest.mark.slow
def test_a_script_shows_that_the_mean_of_uneven_shards_is_wrong() -> None:
    case = a_program(
        an_operator("mean", operands={"input": Operand(shape=(5, 3))}), sharded={"0.input": (Shard(0),)}
    )
    done = run_forked(script(case, "torch_dtensor", tensor="0.output", tolerance=1e-5))
    assert "BUG REPRODUCED" in done.output.splitlines(), done.output
    assert "expected" in done.output


def test_a_program_in_inference_mode_is_written_as_one() -> None:
    case = a_program(
        an_operator("square", operands={"input": Operand(shape=(4, 3), gradient=False)}),
        spelling=Spelling(inference=True),
    )
    text = script(case, "torch_dtensor")
    assert "with torch.inference_mode():\n        output = torch.square(input)" in text


def test_what_an_operator_of_lists_writes_is_its_result() -> None:
    case = a_program(
        an_operator(
            "aten._foreach_add_",
            call="torch._foreach_add_",
            form="inplace",
            arguments=(Items(items=(Reference("input"),)), 1.0),
        )
    )
    text = script(case, "torch_dtensor", tensor="0.output.0", results={"0.output.0": "float32"})
    assert "torch._foreach_add_([input], 1.0)\n    output = [input]" in text
    assert "output[0]" in text


def test_results_that_are_lists_are_counted_one_by_one() -> None:
    weights, gradients = Items(items=(Reference("input"),)), Items(items=(Reference("gradient"),))
    case = a_program(
        an_operator(
            "aten._fused_sgd",
            call="torch.ops.aten._fused_sgd",
            operands={name: Operand(shape=(4, 3), gradient=False) for name in ("input", "gradient")},
            arguments=(weights, gradients, Items(items=())),
        )
    )
    text = script(case, "xla_spmd", tensor="0.output.1", results={"0.output.1": "float32"})
    call = "torch.ops.aten._fused_sgd([input], [gradient], [])"
    assert f"output = torch.utils._pytree.tree_leaves({call})" in text
    assert "output[1]" in text
