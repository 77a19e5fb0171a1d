"""`pytest --difftest` in a project that has a model: what passes, fails and is skipped there."""

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
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


ALIKE, BY_RANK, KNOWN, NOT_COMPARABLE, UNKNOWN = "alike", "by_rank", "known", "not_comparable", "unknown"
MODELS = {
    ALIKE: {"last": "nn.Linear(4, 2)", "layouts": '["ddp", "fsdp", "dtensor"]'},
    BY_RANK: {"last": "nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))", "layouts": '["ddp"]'},
    KNOWN: {
        "last": "nn.Unflatten(1, (1, 1, 4)), nn.Conv2d(1, 1, (1, 3), bias=False), nn.Flatten()",
        "layouts": '["dtensor"]',
    },
    NOT_COMPARABLE: {"last": "nn.Linear(4, 2)", "layouts": '["parallelize"]'},
    UNKNOWN: {"last": "nn.Linear(4, 2)", "layouts": '["ddp", "pipeline"]'},
}


def shown_by_pytest(folder: Path, names: Iterable[str], *options: str) -> str:
    """The exit status and the output for projects of `MODELS`, each a file of tests."""
    for name in names:
        (folder / f"test_{name}.py").write_text(PROJECT.format_map(MODELS[name]))
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"{done.returncode}\n{done.stdout}"


@pytest.mark.long
def test_without_the_option_such_a_test_is_skipped_and_says_so(tmp_path: Path) -> None:
    shown = shown_by_pytest(tmp_path, [ALIKE])
    assert shown.startswith("0\n")
    assert "needs --difftest" in shown


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints for all models, which share the processes that import torch."""
    return shown_by_pytest(tmp_path_factory.mktemp("project"), MODELS, "--difftest")


@pytest.mark.slow
def test_a_model_that_trains_alike_passes_on_every_layout(compared: str) -> None:
    assert f"test_{ALIKE}.py::test_trains_alike PASSED" in compared, compared
    assert "3 failed, 2 passed" in compared


@pytest.mark.slow
def test_ddp_of_a_batch_normalization_is_compared_with_a_batch_on_every_rank(compared: str) -> None:
    assert f"test_{BY_RANK}.py::test_trains_alike PASSED" in compared, compared


@pytest.mark.slow
def test_what_cannot_be_compared_on_a_layout_fails_and_says_why(compared: str) -> None:
    assert compared.startswith("1\n")
    assert f"test_{NOT_COMPARABLE}.py::test_trains_alike FAILED" in compared, compared
    assert "parallelize: cannot be compared: no plan of parallelize_module" in compared
    assert "Traceback" not in compared


@pytest.mark.slow
@pytest.mark.skipif(not version("torch").startswith("2.9."), reason="torch 2.15 has mended it")
def test_a_known_fault_fails_and_is_named(compared: str) -> None:
    assert f"test_{KNOWN}.py::test_trains_alike FAILED" in compared, compared
    named = r"a known fault, not your model's: .*convolution.* \(\S*convolution_without_bias_on_dtensor"
    assert re.search(named, compared), compared


@pytest.mark.slow
def test_a_layout_that_there_is_none_of_is_wrong_usage(compared: str) -> None:
    assert f"test_{UNKNOWN}.py::test_trains_alike FAILED" in compared, compared
    assert "unknown layout 'pipeline'; allowed: ddp, fsdp, dtensor" in compared
