"""The samples of the operator table, called in torch on the CPU, and the chains that are made of them."""

import hashlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[cuda]'")

from difftest.cases import numbers  # noqa: E402
from difftest.cases.case import Case  # noqa: E402
from difftest.cases.options import Spelling  # noqa: E402
from generators.cases import case_at  # noqa: E402
from generators.operators.schedule import BLOCK  # noqa: E402
from generators.operators.table import OperatorEntry, usable  # noqa: E402
from tools.operators.execute import gradients, run  # noqa: E402
from workers.training.build import build  # noqa: E402
from workers.training.dtypes import Dtypes, default_dtype  # noqa: E402
from workers.training.layers import Plan  # noqa: E402
from workers.training.operators import Operators  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ONE_IN = 8
CHAINS = 60


def chosen() -> list[OperatorEntry]:
    """One in `ONE_IN` entries, the same ones on every machine."""
    return [entry for entry in usable() if hashlib.sha256(entry.name.encode()).digest()[0] % ONE_IN == 0]


def test_samples_give_what_the_table_says() -> None:
    wrong = []
    for entry in chosen():
        for sample in entry.samples:
            done = run(entry.operator(sample, form=entry.form), 5)
            shapes = [(name, tuple(one.shape)) for name, one in done.results.items()]
            if shapes != [(one.name, one.shape) for one in sample.results]:
                wrong.append(f"{entry.name}: {shapes}")
            if sample.gradient and not gradients(done):
                wrong.append(f"{entry.name}: no gradient")
    assert not wrong


def test_torch_rejects_the_arguments_that_the_table_says_it_rejects() -> None:
    accepted = []
    for entry in chosen():
        for sample in entry.errors:
            try:
                run(entry.operator(sample, form=entry.form, rejects=True), 5)
            except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError):
                continue
            accepted.append(entry.name)
    assert not accepted


def test_drawn_chains_run_forward_and_backward() -> None:
    first = -(-len(usable()) // BLOCK) * BLOCK
    failed = []
    for index in range(first, first + CHAINS):
        case = case_at(11, index, paths=("operators",))
        assert len(case.model.layers) > 1
        try:
            differentiate(case)
        except Exception as error:  # noqa: BLE001  whatever a chain raises
            failed.append(f"{index}: {[layer.title for layer in case.model.layers]}: {error!r}")
    assert not failed


def differentiate(case: Case) -> None:
    """Runs a program in float64 as the oracle does, and its backward pass."""
    plan = Plan(
        sequence=0,
        operators=Operators(),
        dtypes=Dtypes(torch.float64, wide=True),
        checkpointing=False,
        spelling=Spelling(),
    )
    module: Any = build(case.model, numbers.weights(case), plan)
    writes = any(layer.writes for layer in case.model.operators.values())
    with default_dtype(torch.float64):
        tensors = module(lambda _index: None, copied=writes)
    results = [one for name, one in tensors.items() if "output" in name and isinstance(one, torch.Tensor)]
    parts = [torch.view_as_real(one) if one.is_complex() else one for one in results if one.requires_grad]
    losses = [one.sum() for one in parts]
    if losses:
        torch.autograd.backward(losses)
