"""Reproducers of findings in a user's module: scripts that hold its files, and run without them."""

import ast
import dataclasses
import importlib
import itertools
import re
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest
from forked_scripts import run_forked
from installed_packages import needs
from own_models import documented, own_case, own_layer, written
from sample_scripts import FAULTS

from difftest.cases.case import Case, Training
from difftest.cases.model import Model
from difftest.cases.options import Spelling
from difftest.ground import sources
from difftest.ground.errors import UsageError
from difftest.judge.outcome import Trace
from difftest.judge.stage import Stage
from reports.reproducer import own, templates
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render
from reports.reproducer.tidied import tidied
from workers.isolate import sandbox

OTHERS = {"torch_experts", "torch_pipeline", "torch_tp", "xla_tp", "definitions", "torch_eager"}
BACKENDS = sorted({*templates.backends()} - OTHERS)
"""Those with a template, less references, and those whose styles of a user's modules are not known."""

LOSSES: tuple[Literal["own", "mse", "cross_entropy"], ...] = ("own", "mse", "cross_entropy")

HARD = 'TEXT = """three \\"\\"\\" quotes, \\\\ and\x0c, without an end"""' + "\n" * 9 + "END = '\\n'"


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    made_case = own_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    return made_case


def of_layer(case: Case, folder: Path, **fields: object) -> Case:
    return msgspec.structs.replace(case, model=Model(layers=(own_layer(folder, **fields),)))


def spoken(shown: Fault) -> Fault:
    """The fault in a tensor that the module has."""
    return dataclasses.replace(shown, tensor=shown.tensor.replace("0.weight", "0.head.weight"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inputs", [("0",), ("0", "1"), ("left", "right")])
def test_a_script_holds_the_users_files_and_imports_nothing_of_difftest(
    case: Case, tmp_path: Path, backend: str, inputs: tuple[str, ...]
) -> None:
    tied = {"other.weight": "head.weight"}
    changed = of_layer(case, tmp_path, inputs=inputs, tied=tied, modules={"q": "Linear"}, without=("q",))
    for loss, shown in zip(itertools.cycle(LOSSES), map(spoken, FAULTS), strict=False):
        training = Training(loss=loss, optimizer="own", accumulation=2)
        script = render(msgspec.structs.replace(changed, training=training), backend, shown, "a title")
        assert "difftest" not in script
        assert _value(ast.parse(script), "FILES") == {"model.py": documented()}
        assert "user.optimizer" in script or not shown.updates


def _value(tree: ast.Module, name: str) -> object:
    """The literal that the script binds to `name`."""
    bound = (node for node in tree.body if isinstance(node, ast.Assign))
    return next(ast.literal_eval(node.value) for node in bound if ast.unparse(node.targets[0]) == name)


@pytest.mark.parametrize("text", [HARD, "x = 1", "", "\n\n\n\n\n", "# \u00e9\n"])
def test_a_file_is_quoted_so_that_tidying_the_script_does_not_change_it(text: str) -> None:
    script = tidied(f"import sys\nTEXT = {own.quoted(text)}\nsys.exit(TEXT)\n")
    bound = ast.parse(script).body[1]
    assert isinstance(bound, ast.Assign)
    assert ast.literal_eval(bound.value) == text


def test_a_package_is_imported_from_the_folder_that_has_it(case: Case, tmp_path: Path) -> None:
    (tmp_path / "src" / "mine").mkdir(parents=True)
    files = {"src/mine/net.py": sources.digest(written(tmp_path / "src" / "mine", name="net.py"))}
    script = render(of_layer(case, tmp_path, source="mine.net:make", files=files), "torch_ddp", FAULTS[2], "")
    assert 'sys.path.insert(0, f"{FOLDER.name}/src")' in script
    assert "user = importlib.import_module('mine.net')" in script
    assert "made = user.make(0)" in script


@pytest.mark.long
def test_batches_have_the_seeds_of_the_workers(case: Case) -> None:
    needs("torch", reason="needs torch")
    made = importlib.import_module("workers.own.made")
    steps = [own.batch_seed(case, step) for step in range(3)]
    assert steps == [made._seed(case, step) for step in range(3)]  # noqa: SLF001
    assert len({*steps}) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nn.TransformerEncoderLayer", "attention has dropout"),
        ("from torch._higher_order_ops.scan import scan", "functions of control flow"),
        ("torch.cond(", "functions of control flow"),
    ],
)
def test_a_model_whose_reference_no_script_can_have_is_refused(
    case: Case, tmp_path: Path, line: str, reason: str
) -> None:
    file = written(tmp_path, documented() + f"# {line}\n")
    assert case.model.own
    layer = msgspec.structs.replace(case.model.own, files={"model.py": sources.digest(file)})
    changed = msgspec.structs.replace(case, model=Model(layers=(layer,)))
    assert reason in str(refusal(changed, "torch_ddp"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_users_mean_over_targets_is_divided_by_their_global_count(
    case: Case, tmp_path: Path, backend: str
) -> None:
    over_rows = case.changed("training", loss="own")
    over_targets = of_layer(over_rows, tmp_path, mean_over="targets")
    scripts = [tidied(render(one, backend, spoken(CLIPPED), "a title")) for one in (over_rows, over_targets)]
    share, count = (
        "loss = user.loss(returned, y) * ((y != -100).sum() / count)",
        "max(1, int((targets != -100)",
    )
    assert [(share in text, count in text) for text in scripts] == [(False, False), (True, True)]


def test_plain_dtensors_are_not_made_to_mix_with_other_tensors(case: Case) -> None:
    plain = msgspec.structs.replace(case, spelling=Spelling(no_implicit_replication=True))
    texts = [render(one, "torch_dtensor", spoken(CLIPPED), "a title") for one in (case, plain)]
    assert ["_allow_implicit_replication" in text for text in texts] == [True, False]


def test_a_script_is_made_of_unchanged_files_only(case: Case, tmp_path: Path) -> None:
    assert refusal(case, "torch_ddp") is None
    written(tmp_path, "changed = True\n")
    with pytest.raises(UsageError, match=r"model.py has the SHA-256"):
        refusal(case, "torch_ddp")


LINES = {
    name: shape for part in "qkv" for name, shape in ((f"{part}.weight", (8, 8)), (f"{part}.bias", (8,)))
}
TINY = {"embed.weight": (16, 8), "head.weight": (16, 8), "head.bias": (16,), **LINES}
CLIPPED = Fault(kind="numbers", stage=Stage.UPDATE, step=0, tensor="0.q.weight", tolerance=1e-4)


@pytest.mark.slow
def test_a_script_shows_the_clipping_of_partial_gradients_only_on_the_faulty_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = own_case(tmp_path, parameters=TINY)
    monkeypatch.chdir(tmp_path)
    clipped = msgspec.structs.replace(plain, training=Training(loss="cross_entropy", clip_norm=0.25))
    scripts = [render(clipped, backend, CLIPPED, "clipping") for backend in ("torch_dtensor", "torch_ddp")]
    monkeypatch.chdir("/")
    shown, healthy = map(run_forked, scripts)
    assert shown.shown, shown.output
    assert healthy.absent, healthy.output
    assert "tolerance" in healthy.output, "it must have compared, not failed"


DROPPING = """
import torch
from torch import nn
class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.drop = nn.Linear(4, 2), nn.Dropout(0.3)
    def forward(self, left, right):
        return {"first": self.drop(self.inner(left) + self.inner(right).float())}
def build(seed):
    return Dropping()
def batch(generator, rows):
    draw = lambda width: torch.randn(rows, width, generator=generator)
    return {"left": draw(4), "right": draw(4)}, draw(2)
def loss(outputs, targets):
    return (outputs["first"] - targets).abs().mean()
def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=0.01)
"""

LABELLED = """
import torch
from torch import nn
class Labelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)
    def forward(self, fed):
        outputs = self.inner(fed["left"])
        return {"loss": (outputs - fed["labels"]).square().mean(), "outputs": outputs}
def build(seed):
    return Labelled()
def batch(generator, rows):
    draw = lambda width: torch.randn(rows, width, generator=generator)
    return {"left": draw(4), "labels": draw(2)}
def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "text"),
    [
        ("torch_ddp", DROPPING),
        pytest.param("xla_spmd", DROPPING, marks=pytest.mark.xla),
        ("torch_ddp", LABELLED),
    ],
    ids=["torch_ddp", "xla_spmd", "a dict of all"],
)
def test_a_script_has_the_numbers_masks_loss_and_optimizer_of_the_run(
    work: Path, backend: str, text: str
) -> None:
    labelled = text == LABELLED
    inputs = ("left", "labels" if labelled else "right")
    plain = own_case(work, parameters={"inner.weight": (2, 4), "inner.bias": (2,)}, inputs=inputs)
    assert plain.model.own
    layer = msgspec.structs.replace(
        plain.model.own,
        files={"model.py": sources.digest(written(work, text))},
        takes_dict=labelled,
        fed_dict=labelled,
    )
    training = Training(loss="own", optimizer="own", steps=2, accumulation=2)
    case = msgspec.structs.replace(plain, model=Model(layers=(layer,)), training=training)
    truth = sandbox.run(case, "oracle")
    assert isinstance(truth, Trace)
    name = "0.inner.weight"
    expected = truth.steps[1][Stage.UPDATE, name].pieces[0]
    shown = Fault(kind="numbers", stage=Stage.UPDATE, step=1, tensor=name, tolerance=1e-5)
    done = run_forked(render(case, backend, shown, "healthy"))
    assert done.absent, done.output
    printed = float(re.findall(r"expected (\S+),", done.output)[-1])
    assert np.abs(expected - printed).min() < 1e-7, "the script's reference is the oracle's"
