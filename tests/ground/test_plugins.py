"""Plug-ins are discovered by their file, and an error about an unknown name lists the allowed names."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from difftest.ground import plugins
from difftest.ground.errors import UsageError
from workers.backends import candidates

CHECKS = "difftest.judge.checks"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of two plug-ins, one of which raises when imported, and a private module."""
    package = tmp_path / "planted_formats"
    package.mkdir()
    for name, text in {"__init__": "", "b": "", "a": "raise RuntimeError('imported')", "_shared": ""}.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield "planted_formats"
    for name in [name for name in sys.modules if name.startswith("planted_formats")]:
        del sys.modules[name]


def test_names_come_from_the_files_without_an_import(folder: str) -> None:
    assert plugins.names(folder) == ("a", "b")


def test_a_plugin_is_loaded_by_its_name(folder: str) -> None:
    assert plugins.load(folder, "b").__name__ == "planted_formats.b"
    assert plugins.load(CHECKS, "loss").ORDER > 0


@pytest.mark.parametrize("name", ["", "c", "_shared", "a.b", "../b"])
def test_an_unknown_name_raises_with_the_allowed_names(folder: str, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        plugins.load(folder, name)
    assert str(caught.value) == f"unknown planted_format {name!r}; allowed: a, b"


def test_require_names_the_first_name_that_is_not_allowed() -> None:
    assert plugins.require(CHECKS, ["loss", "finite"]) == ("loss", "finite")
    with pytest.raises(UsageError, match="unknown check 'finite'; allowed: loss"):
        plugins.require(CHECKS, ["loss", "finite", "shape"], ["loss"])


def test_a_backend_may_be_named_with_an_environment() -> None:
    chosen = candidates(("xla_spmd@2.8", "xla_spmd"))
    assert list(chosen) == ["xla_spmd@2.8", "xla_spmd"]
    assert chosen["xla_spmd@2.8"] is chosen["xla_spmd"]
    assert plugins.plain("xla_spmd@2.8") == plugins.plain("xla_spmd") == "xla_spmd"


@pytest.mark.parametrize(
    "name", ["xla_spmd@", "xla_spmd@a-b", "xla_spmd@../x", "xla_spmd@a@b", f"xla_spmd@{'a' * 31}"]
)
def test_an_invalid_environment_name_raises_with_the_allowed_letters(name: str) -> None:
    with pytest.raises(UsageError, match="allowed: 1 to 30 letters"):
        candidates((name,))


def test_an_environment_does_not_make_an_unknown_backend_valid() -> None:
    with pytest.raises(UsageError, match="unknown backend 'sideways'"):
        candidates(("sideways@2.8",))
    with pytest.raises(UsageError, match="unknown backend 'oracle'"):
        candidates(("oracle@2.8",))
