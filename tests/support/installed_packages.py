"""Skips tests where a package is not installed; unlike `pytest.importorskip`, it imports nothing.

Every process that runs tests collects all of them, and torch_xla alone takes seconds to import.
"""

from importlib.util import find_spec

import pytest


def needs(package: str, reason: str = "") -> None:
    """Skips the test, or the file that calls it at its top, where a package is not installed."""
    if find_spec(package) is None:
        pytest.skip(reason or f"needs {package}", allow_module_level=True)


def skip_without(*packages: str) -> pytest.MarkDecorator:
    """A mark that skips a test where one of the packages is not installed."""
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")
