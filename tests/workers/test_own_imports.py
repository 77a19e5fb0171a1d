"""What a user's model imports at its top: which of it a zygote imports, once for all ranks."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from installed_packages import needs
from own_models import described_in, own_case, written
from samples import a_case

from difftest.cases.case import Case
from difftest.ground import sources
from generators import own
from workers.isolate import sandbox, zygotes
from workers.isolate.described import described
from workers.isolate.own_imports import BEFORE, BEFORE_ORACLE, preload

SOURCE = """
import torch, json.decoder
import helper
import packaged.inner
from collections import OrderedDict as Ordered, abc
from . import beside
from os.path import *
if True:
    import later

def build(seed):
    import inside
"""


def of_source(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Case:
    """A case whose model's file has this text."""
    monkeypatch.chdir(folder)
    case = own_case(folder)
    files = {"model.py": sources.digest(written(folder, text))}
    layer = msgspec.structs.replace(case.model.layers[0], files=files)
    return case.changed("model", layers=(layer,))


def test_the_installed_packages_that_a_model_imports_at_its_top_are_preloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.py").touch()
    (tmp_path / "src" / "packaged").mkdir(parents=True)
    case = of_source(tmp_path, monkeypatch, SOURCE)
    names = ("torch:", "json.decoder:", "collections:OrderedDict", "collections:abc")
    assert preload(case, "torch_ddp") == (BEFORE, *names)
    assert preload(case, "oracle") == (BEFORE_ORACLE, *names)


def test_nothing_is_preloaded_for_other_files_than_the_case_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = of_source(tmp_path, monkeypatch, SOURCE)
    written(tmp_path, "import evil\n")
    assert preload(case, "torch_ddp") == ()


def test_nothing_is_preloaded_for_a_case_without_a_model_of_the_user_s() -> None:
    assert preload(a_case(), "torch_ddp") == ()


PACKAGE = """
import os
with open({log!r}, "a") as log:
    log.write(f"{{os.getpid()}}\\n")
{more}
"""
MODEL = """import torch
import weighty
from torch import nn

def build(seed):
    return nn.Linear(4, 2)

def batch(generator, rows):
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 2, generator=generator)
"""


@pytest.fixture
def with_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that runs import from, beside a working directory with the model."""
    for name in ("packages", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setattr(zygotes, "_zygotes", {})
    monkeypatch.setattr(sandbox, "_unfit", set())
    return tmp_path


def imports(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> list[str]:
    """The processes that imported the package in two runs of two ranks each."""
    log = folder / "imported"
    (folder / "packages" / "weighty.py").write_text(PACKAGE.format(log=str(log), more=more))
    written(folder / "work", MODEL)
    monkeypatch.chdir(folder / "work")
    description = described("model.py:build", own.meshes(2))
    log.unlink()
    case = own.case_at(description, 0, 0, wanted=("data_parallel",), max_world_size=2)
    assert case.world_size == 2
    for _ in range(2):
        outcome = sandbox.run(case, "torch_ddp")
        assert hasattr(outcome, "steps"), outcome
    return log.read_text().split()


@pytest.mark.slow
def test_a_package_is_imported_once_for_all_ranks(
    with_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(imports(with_package, monkeypatch, "")) == 1


@pytest.mark.slow
def test_a_package_that_starts_threads_is_imported_in_every_rank(
    with_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    processes = imports(with_package, monkeypatch, threads)
    assert len(processes) == len({*processes}) == 1 + 4, "the zygote tried it, and then every rank"


@pytest.mark.slow
def test_ranks_run_in_the_working_directory_of_their_run_whichever_the_zygote_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MODEL.replace("import weighty\n", "")
    description = described_in(tmp_path, monkeypatch, text)
    case = own.case_at(description, 0, 0, wanted=("data_parallel",), max_world_size=2)
    pids = set[int]()
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        model = written(folder, text)
        outcome = sandbox.run(case, "torch_ddp")
        assert hasattr(outcome, "steps"), outcome
        model.unlink()
        pids.add(zygotes.zygote_with(zygotes.BASE).pid)
    assert len(pids) == 1


IMPORTED = """
from workers import zygote
zygote.preloaded(["torch", "torch._dynamo", "workers.own.before_imports", "transformers:PreTrainedModel"])
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_transformers_starts_no_thread_of_scipy_s_so_that_a_zygote_can_import_it() -> None:
    needs("transformers", reason="needs transformers: pip install 'difftest[models]'")
    done = subprocess.run([sys.executable, "-P", "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
