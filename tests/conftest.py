"""What holds for every test: no deadlines in Hypothesis, and which warnings are errors in slow tests."""

import pytest
from hypothesis import settings

settings.register_profile("difftest", deadline=None)  # machines and their loads differ
settings.load_profile("difftest")

OUR_WARNINGS = "error:::(difftest|generators|workers|reports)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In slow tests only warnings of our modules are errors: torch and Ray, which they use, warn of their own code."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.filterwarnings("default", OUR_WARNINGS))
