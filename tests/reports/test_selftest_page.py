"""The page that reports the quality of the service."""

import json
import re
from pathlib import Path

import pytest

from difftest.jobs.proof.correct_runs import null_summary
from difftest.jobs.proof.planted_summary import Planted, planted_summary
from difftest.jobs.proof.sweep import SWEPT
from reports.page import selftest

SWEEP = {size: float(size > 8) for size in SWEPT}
DEFECT = Planted(
    defect="<b>sum</b>",
    backend="torch_ddp",
    detected=True,
    cases=3,
    expected_blame="sharding fault",
    blame="torch sharding fault",
)


def sections() -> dict[str, object]:
    return {
        "seed": 7,
        "environment": {"torch": "2"},
        "planted": planted_summary([DEFECT]),
        "null": null_summary([]),
        "sweep": SWEEP,
    }


def test_the_page_plots_the_detection_rate_the_noise_of_correct_runs_and_the_threshold() -> None:
    page = selftest.render(sections()).decode()
    curves = re.findall(r'<polyline class="(\w+)" points="([^"]+)"', page)
    assert [name for name, _ in curves] == ["noise", "found"]
    heights = [float(point.split(",")[1]) for point in curves[1][1].split()]
    assert heights == sorted(heights, reverse=True)
    assert (heights[0], heights[-1]) == (selftest.BOTTOM, selftest.TOP)
    assert 'class="limit"' in page


def test_the_page_escapes_text_and_names_every_defect() -> None:
    page = selftest.render(sections()).decode()
    assert "&lt;b&gt;sum&lt;/b&gt;" in page
    assert "<b>sum</b>" not in page
    assert "1 of 1 planted defects found" in page


def test_results_read_from_json_give_the_same_page(tmp_path: Path) -> None:
    (tmp_path / "selftest.json").write_text(json.dumps(sections(), default=str))
    assert selftest.render(json.loads((tmp_path / "selftest.json").read_text())) == selftest.render(
        sections()
    )


@pytest.mark.parametrize("missing", ["planted", "null", "sweep"])
def test_a_page_with_one_part_omits_the_others(missing: str) -> None:
    page = selftest.render({name: part for name, part in sections().items() if name != missing}).decode()
    assert ("Planted defects" in page) == (missing != "planted")
    assert ("<svg" in page) == (missing == "planted")
