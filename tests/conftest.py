"""Settings for every test: Hypothesis has no deadlines, slow tests have fewer warnings as errors.

`pytest` alone runs all files side by side. The fast tier reads no file of slow tests. Also the cases that
tests share.
"""

import gc
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from generated_cases import GeneratedCases
from hypothesis import settings
from side_by_side import longest_first, processes, runs_all

from difftest.cases.flags import UNOPTIMISED

os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Ray's clusters of the tests require a token, as all that are joined must."""

settings.register_profile("difftest", deadline=None)  # machines and their loads differ
settings.load_profile("difftest")

OUR_WARNINGS = "error:::(difftest|generators|workers|reports)"

ALL_SLOW = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow", re.MULTILINE)
"""What a test file has whose every test is slow."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads its options
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run files side by side where `pytest` is to run them all, the longest first.

    Tests that are named or chosen run in one process, unless `-n` says otherwise. A file stays in a process,
    because its tests share what takes long.
    """
    option = config.option
    if runs_all(option, named=config.args_source is pytest.Config.ArgsSource.ARGS):
        option.numprocesses = processes(os.cpu_count() or 1, psutil.virtual_memory().total)
    if getattr(option, "numprocesses", None) and option.dist == "no":
        option.dist, option.loadscopereorder = "loadfile", False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401  xdist's
    """Keep files in one process that share what takes long."""
    from files_together import FilesTogether  # noqa: PLC0415  xdist may be missing

    return FilesTogether(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage in what is imported and collected, which stays: it took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of slow tests where none of them is to run.

    They import torch, torch_xla and Ray, which takes each process of the fast tier 10 seconds.
    """
    without_slow = collection_path.suffix == ".py" and "not slow" in config.option.markexpr
    return True if without_slow and ALL_SLOW.search(collection_path.read_text()) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turn only warnings of our modules into errors in slow tests, and begin with the longest of their files.

    Those tests use torch and Ray, which warn of their own code.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        longest_first(items)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.filterwarnings("default", OUR_WARNINGS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let XLA compile in a slow test as cheaply as in 15 of 16 generated cases, which takes a third.

    The marker `optimised` keeps its usual flags.
    """
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("slow") and not item.get_closest_marker("optimised"):
            patch.setenv("XLA_FLAGS", UNOPTIMISED)
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def state_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave the state of the user who runs them alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """No test loses power, and the thousands of files that they write would wait seconds for the disk.

    That records are on disk before a campaign goes on has a test of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(scope="session")
def generated_cases(tmp_path_factory: pytest.TempPathFactory) -> GeneratedCases:
    """The generated cases that all processes of a test run share."""
    folder = tmp_path_factory.getbasetemp()
    return GeneratedCases(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of all tests of a file, in which they write users' models."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("work")
        patch.chdir(folder)
        yield folder
