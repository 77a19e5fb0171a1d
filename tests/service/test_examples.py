"""The families in `examples/`: each agrees with the reference on one backend of each side."""

import pytest
from real_runs import compared
from rooms import ROOT

from generators import own
from workers.isolate.described import described

HOST = {
    ("unet", "xla_spmd"): "aten::upsample_nearest2d_backward ran on the host",
    ("dlrm", "xla_spmd"): "aten::_embedding_bag ran on the host",
}
"""What torch_xla 2.9.0 has no operator for: the numbers agree, and the work is done on the host."""

FAMILIES = sorted(file.stem for file in (ROOT / "examples").glob("*.py"))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize("backend", ["torch_ddp", "xla_spmd"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_agrees_on_both_sides(family: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    description = described(f"{family}.py:build", ())
    case = own.case_at(description, 0, 0, wanted=("data_parallel",), max_world_size=2)
    comparison = compared(case, backend)
    fallback = HOST.get((family, backend))
    if fallback is None:
        assert comparison.verdict == "agree", comparison
    else:
        assert {one.check for one in comparison.divergences} == {"on_device"}, "the numbers agree"
        assert fallback in comparison.divergences[0].detail


def test_the_page_lists_every_family() -> None:
    page = (ROOT / "docs" / "own-model.md").read_text()
    assert [family for family in FAMILIES if f"`{family}.py`" not in page] == []


def test_an_example_is_short() -> None:
    lengths = {file.name: file.read_text().count("\n") for file in (ROOT / "examples").glob("*.py")}
    assert max(lengths.values()) <= 80, lengths
