"""Settings for every test: Hypothesis has no deadlines, slow tests have fewer warnings as errors.

Also the cases that tests share.
"""

import os

import pytest
from generated_cases import GeneratedCases
from hypothesis import settings

settings.register_profile("difftest", deadline=None)  # machines and their loads differ
settings.load_profile("difftest")

OUR_WARNINGS = "error:::(difftest|generators|workers|reports)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turn only warnings of our modules into errors in slow tests.

    Those tests use torch and Ray, which warn of their own code.
    """
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.filterwarnings("default", OUR_WARNINGS))


@pytest.fixture(scope="session")
def generated_cases(tmp_path_factory: pytest.TempPathFactory) -> GeneratedCases:
    """The generated cases that all processes of a test run share."""
    folder = tmp_path_factory.getbasetemp()
    return GeneratedCases(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
