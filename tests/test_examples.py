"""The families in `examples/`: each agrees with the reference on one backend of each side."""

import pytest
from real_runs import agrees
from rooms import ROOT

from generators import own
from workers.isolate import sandbox
from workers.isolate.described import described

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
    assert agrees(case, backend, sandbox.run(case, backend))


def test_the_page_lists_every_family() -> None:
    page = (ROOT / "docs" / "own-model.md").read_text()
    assert [family for family in FAMILIES if f"`{family}.py`" not in page] == []


def test_an_example_is_short() -> None:
    lengths = {file.name: file.read_text().count("\n") for file in (ROOT / "examples").glob("*.py")}
    assert max(lengths.values()) <= 80, lengths
