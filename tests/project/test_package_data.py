"""What an installation contains beside Python modules."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATTERNS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
    "package-data"
]


@pytest.mark.parametrize("package", ["difftest", "generators", "workers", "reports"])
def test_every_file_that_is_no_module_is_installed(package: str) -> None:
    """A page, a table or a template that a wheel lacks fails only where somebody installs it."""
    installed = {
        file
        for name, patterns in PATTERNS.items()
        for pattern in patterns
        for file in (ROOT / name.replace(".", "/")).glob(pattern)
    }
    files = {
        file
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.suffix not in {".py", ".pyc"} and file.parent.name != "__pycache__"
    }
    assert files
    assert not files - installed
