"""Recompiling the graph of a crash with the jaxlib that is here."""

import sys
from pathlib import Path

import pytest
from installed_packages import needs

from difftest.jobs.filing.recompilation import INCONCLUSIVE, recompile

pytestmark = pytest.mark.slow
needs("jaxlib", reason="needs jaxlib, which torch_xla brings")

SUM = """
module @sums {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %sum = stablehlo.add %a, %b : tensor<4xf32>
    return %sum : tensor<4xf32>
  }
}
"""


def test_a_graph_that_the_compiler_takes_agrees(tmp_path: Path) -> None:
    (tmp_path / "graph0.stablehlo.txt").write_text(SUM)
    assert recompile(Path(sys.executable), tmp_path, 2, "Check failed").startswith(
        "agrees: it compiles with "
    )


def test_text_that_is_no_graph_is_inconclusive(tmp_path: Path) -> None:
    (tmp_path / "graph0.stablehlo.txt").write_text("module {")
    assert recompile(Path(sys.executable), tmp_path, 2, "Check failed").startswith(f"{INCONCLUSIVE}: jaxlib ")
