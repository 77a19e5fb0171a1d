"""The documentation's site: its links lead to its own pages, and it builds where MkDocs is installed."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pages import ROOT


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "above", "linked"),
    [
        ("[a](docs/findings.md#triage)", "", "[a](findings.md#triage)"),
        ("![a](docs/overview.svg)", "", "![a](overview.svg)"),
        ("[a](ARCHITECTURE.md)", "", "[a](architecture.md)"),
        ("[a](tests/project/test_docs.py)", "", "a"),
        ("[a](https://pytorch.org/x.md)", "", "[a](https://pytorch.org/x.md)"),
        ("[a](../README.md#what)", "../", "[a](index.md#what)"),
        ("[a](verdicts.md)", "../", "[a](verdicts.md)"),
        ("[a](docs/own-model.ipynb)", "", "[a](own-model-in-python.md)"),
        ("[a](docs/)", "", "[a](index.md)"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(text: str, above: str, linked: str) -> None:
    assert hook().from_top(text, above) == linked


def test_every_page_is_in_a_group_of_the_site() -> None:
    named = set(re.findall(r"^ +- ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= named


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs MkDocs: pip install 'difftest[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert {"site", "api", "findings", "own-model-in-python"} <= {page.parent.name for page in pages}
    assert (tmp_path / "site" / "example" / "report.html").is_file()
    assert "twice_every" in (tmp_path / "site" / "api" / "index.html").read_text()
    assert "mse_loss_on_dtensor.py" in (tmp_path / "site" / "faults" / "index.html").read_text()
    loaded = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* rel="stylesheet"[^>]*"https?:')
    assert not [page for page in pages if loaded.search(page.read_text())]
