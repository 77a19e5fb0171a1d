"""`pytest --difftest` in a project that has a model: what passes, fails and is skipped there."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
import torch
from torch import nn
from torch.nn import functional


def build(seed):
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), {last})


def batch(generator, rows):
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 2, generator=generator)


def test_trains_alike(difftest):
    difftest.check(build, batch, layouts={layouts})
"""


def shown_by_pytest(
    folder: Path, *options: str, last: str = "nn.Linear(4, 2)", layouts: str = '["ddp"]'
) -> str:
    (folder / "test_model.py").write_text(PROJECT.format(last=last, layouts=layouts))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "test_model.py",
        *options,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"{done.returncode}\n{done.stdout}"


@pytest.mark.long
def test_without_the_option_such_a_test_is_skipped_and_says_so(tmp_path: Path) -> None:
    shown = shown_by_pytest(tmp_path)
    assert shown.startswith("0\n")
    assert "needs --difftest" in shown


@pytest.mark.slow
def test_a_model_that_trains_alike_passes_on_every_layout(tmp_path: Path) -> None:
    shown = shown_by_pytest(tmp_path, "--difftest", layouts='["ddp", "fsdp", "dtensor"]')
    assert shown.startswith("0\n"), shown
    assert "1 passed" in shown


@pytest.mark.slow
def test_what_cannot_be_compared_on_a_layout_fails_and_says_why(
    tmp_path: Path,
) -> None:
    shown = shown_by_pytest(tmp_path, "--difftest", layouts='["parallelize"]')
    assert shown.startswith("1\n")
    assert "parallelize: cannot be compared: no plan of parallelize_module" in shown
    assert "Traceback" not in shown


@pytest.mark.slow
def test_ddp_of_a_batch_normalization_is_compared_with_a_batch_on_every_rank(tmp_path: Path) -> None:
    last = "nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))"
    assert shown_by_pytest(tmp_path, "--difftest", last=last).startswith("0\n")


@pytest.mark.slow
def test_a_layout_that_there_is_none_of_is_wrong_usage(tmp_path: Path) -> None:
    shown = shown_by_pytest(tmp_path, "--difftest", layouts='["ddp", "pipeline"]')
    assert shown.startswith("1\n")
    assert "unknown layout 'pipeline'; allowed: ddp, fsdp, dtensor" in shown
