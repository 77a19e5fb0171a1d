"""The notebook of the documentation runs as it stands."""

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from rooms import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xla, pytest.mark.nightly]

NOTEBOOK = ROOT / "docs" / "own-model.ipynb"


def text(cell: nbformat.NotebookNode) -> str:
    """What a cell printed or showed."""
    return "".join(
        one.get("text", "") or one.get("data", {}).get("text/plain", "") for one in cell.get("outputs", ())
    )


def test_the_notebook_compares_a_model_on_both_sides_and_lists_its_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "examples" / "rnn.py", tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.reads(NOTEBOOK.read_text(), as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    *_, table, _, findings = notebook.cells
    assert {"torch_ddp", "xla_spmd"} <= {*text(table).split()}
    assert text(findings).endswith("0 findings\n")
