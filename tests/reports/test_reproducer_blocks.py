"""Reproducer scripts of building blocks, which hold a block's own class."""

import ast
from collections.abc import Iterator

import pytest
from forked_scripts import run_forked
from installed_packages import skip_without
from samples import a_case
from test_reproducer import imported

from difftest.cases.case import Case
from difftest.cases.layers.building_block import BuildingBlock
from difftest.jobs.filing.block_sources import block_texts
from difftest.judge.stage import Stage
from generators.cases import case_at
from reports.reproducer import blocks
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render
from workers.backends import candidates

OURS = {"difftest", "generators", "workers", "reports"}
CASES = 150
needs_torch = skip_without("torch")


def cases(backend: str) -> Iterator[tuple[str, Case]]:
    """A generated case of each block that the backend supports, by the block's name."""
    shown = set[str]()
    for index in range(CASES):
        case = case_at(0, index, paths=("blocks",))
        names = {layer.block for _, layer in blocks.blocks(case)} - shown
        if names and candidates((backend,))[backend].unsupported(case) is None and not refusal(case, backend):
            shown |= names
            yield min(names), case


def gradient(case: Case) -> Fault:
    name = next(iter(case.model.parameters()))
    return Fault(kind="numbers", stage=Stage.BACKWARD, step=0, tensor=name, tolerance=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["torch_ddp", "torch_dtensor", "xla_spmd"])
def test_the_script_of_a_block_stands_alone(backend: str) -> None:
    written = set()
    for name, case in cases(backend):
        text = render(case, backend, gradient(case), "a block", block_texts=block_texts(case), plain=True)
        tree = ast.parse(text)
        compile(tree, name, "exec")
        assert not OURS & {module.partition(".")[0] for module in imported(tree)}
        for word in ("arguments[", "sizes.", "Mapping", "Tensor |"):
            assert word not in text, name
        written.add(name)
    assert written


def test_what_the_arguments_decide_is_decided_in_the_script() -> None:
    text = {
        "form": """
from torch import nn
from torch.nn.utils import parametrize
from workers.training.blocks import Sizes

class One(nn.Module):
    \"\"\"The one.\"\"\"
    table: int
    def __init__(self, width: int) -> None:
        self.width: int = width

class Other(nn.Module):
    pass

def module(arguments, sizes):
    if arguments["other"]:
        return Other(parametrize)
    return One(arguments["width"])
"""
    }
    layer = BuildingBlock(
        block="form", arguments={"width": 3, "other": False}, parameters={}, inputs=3, outputs=3
    )
    one = blocks.written(text["form"], layer, a_case())
    assert (one.expression, one.imports) == ("One(3)", ())
    assert one.definitions == (
        "class One(nn.Module):\n\n    def __init__(self, width):\n        self.width = width",
    )


@pytest.mark.slow
@needs_torch
def test_a_script_of_a_block_shows_no_fault_on_a_correct_backend() -> None:
    case = next(case for name, case in cases("torch_ddp") if name in ("swiglu", "lora", "selective_scan"))
    shown = gradient(case)
    done = run_forked(render(case, "torch_ddp", shown, "a block", block_texts=block_texts(case), plain=True))
    assert done.absent, done.output
    assert "tolerance" in done.output
