"""What holds for every test: Hypothesis measures no deadlines, for machines and their loads differ. A crash after the last says where."""

import faulthandler
import sys

import pytest
from hypothesis import settings

from workers import native

settings.register_profile("difftest", deadline=None)
settings.load_profile("difftest")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """The handler of pytest is put away by now, and what Ray and Arrow left in the process has yet to end."""
    faulthandler.enable(sys.__stderr__ or sys.stderr)
    if handler := native.compiled():
        handler.watch()
