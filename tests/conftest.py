"""Settings for every test: Hypothesis has no deadlines, slow tests have fewer warnings as errors.

The fast tier reads no file of slow tests. Also the cases that tests share.
"""

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from generated_cases import GeneratedCases
from hypothesis import settings

os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Ray's clusters of the tests require a token, as all that are joined must."""

settings.register_profile("difftest", deadline=None)  # machines and their loads differ
settings.load_profile("difftest")

OUR_WARNINGS = "error:::(difftest|generators|workers|reports)"

ALL_SLOW = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow", re.MULTILINE)
"""What a test file has whose every test is slow."""


LONG = {
    "test_service.py": 350,
    "test_chaos.py": 170,
    "test_rates.py": 160,
    "test_cluster.py": 80,
    "test_vacuous_faults.py": 80,
    "test_upstream.py": 75,
    "test_jobs.py": 70,
    "test_mission.py": 65,
    "test_resume_service.py": 60,
    "test_dispatch.py": 60,
    "test_own_reproducer.py": 55,
    "test_recorded.py": 50,
    "test_ablate.py": 50,
    "test_bisect.py": 45,
    "test_own_located.py": 40,
    "test_torchax.py": 40,
    "test_notebook.py": 35,
    "test_flash_attention_runs.py": 35,
    "test_reproducer_runs.py": 35,
}
"""Files with few tests that take long, in seconds on 2 cores (2026-11-26).

Where several processes share the tests, one that begins late with such a file works alone at the end.
"""


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
        sizes = Counter(item.path.name for item in items)
        items.sort(key=lambda item: (LONG.get(item.path.name, 0), sizes[item.path.name]), reverse=True)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.filterwarnings("default", OUR_WARNINGS))


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
