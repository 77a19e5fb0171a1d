"""What holds for every test: no deadlines in Hypothesis, which warnings are errors in slow tests, and cases that tests share."""

import os

import pytest
from generated_cases import GeneratedCases
from hypothesis import settings

settings.register_profile("difftest", deadline=None)  # machines and their loads differ
settings.load_profile("difftest")

OUR_WARNINGS = "error:::(difftest|generators|workers|reports)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In slow tests only warnings of our modules are errors: torch and Ray, which they use, warn of their own code."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.filterwarnings("default", OUR_WARNINGS))


@pytest.fixture(scope="session")
def generated_cases(tmp_path_factory: pytest.TempPathFactory) -> GeneratedCases:
    """Cases that all processes of the test run share."""
    folder = tmp_path_factory.getbasetemp()
    return GeneratedCases(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
