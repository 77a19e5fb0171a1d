"""Every format says what was compared, and no side that was not compared looks like a green one."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from sample_findings import HOSTILE_TEXT, ParsedPage, a_corpus, an_observation

from difftest.judge.capability import Lack
from difftest.records.columns import Columns
from difftest.records.conclusion import Conclusion
from difftest.records.lacks import SupportTable
from difftest.records.observation import Ending, Observation
from reports.report import build
from reports.write import write

CASES = 4
BACKENDS = {"torch": "torch_ddp", "xla": "xla_spmd"}
REASON = f"a node was lost {HOSTILE_TEXT}"


def lost(index: int, backend: str, reason: str = REASON) -> Observation:
    return an_observation(index, backend, "lost", reason=reason, outcome=Ending(status="lost"), path="hybrid")


def one_side_dead() -> list[Observation]:
    """Every run of XLA was lost; one backend of torch supports nothing, the other agrees."""
    unsupported = Ending(status="unsupported")
    return [
        run
        for index in range(CASES)
        for run in (
            an_observation(index, "oracle", "oracle", side="oracle"),
            an_observation(index),
            an_observation(index, "torch_tp", "unsupported", reason="no tp axis", outcome=unsupported),
            lost(index, "xla_spmd"),
        )
    ]


def oracle_dead() -> list[Observation]:
    """The oracle ended in no case, so that nothing was compared."""
    return [
        lost(index, backend, "the oracle's run was lost: x")
        for index in range(CASES)
        for backend in ("torch_ddp", "xla_spmd")
    ]


def all_inconclusive() -> list[Observation]:
    return [
        an_observation(index, backend, "inconclusive", reason="the oracle failed")
        for index in range(CASES)
        for backend in ("torch_ddp", "xla_spmd")
    ]


def healthy() -> list[Observation]:
    return [an_observation(index, name) for index in range(CASES) for name in ("torch_ddp", "xla_spmd")]


def reported(out: Path, observations: list[Observation]) -> dict[str, str]:
    """The text of every format's file, by name."""
    a_corpus(out, *observations)
    return {file.name: file.read_text() for file in write(out, ("html", "markdown", "summary", "junit"))}


@pytest.mark.parametrize(
    ("observations", "sides"),
    [(one_side_dead(), ["xla"]), (oracle_dead(), ["torch", "xla"]), (all_inconclusive(), ["torch", "xla"])],
    ids=["one side dead", "oracle dead", "all inconclusive"],
)
def test_every_format_names_the_sides_of_which_too_little_was_compared(
    tmp_path: Path, observations: list[Observation], sides: list[str]
) -> None:
    files = reported(tmp_path, observations)
    summary = json.loads(files["summary.json"])
    subjects = [message.partition(":")[0] for message in summary["incomplete"]]
    assert [subject for subject in subjects if subject.startswith("side ")] == [
        f"side {side}" for side in sides
    ]
    assert {subject for subject in subjects if not subject.startswith("side ")} == {
        BACKENDS[side] for side in sides
    }
    opening = "Nothing was compared." if len(sides) == 2 else "Too little was compared."
    assert summary["headline"] == summary["opening"] == opening
    assert summary["verdict"].startswith(f"{opening} No findings")
    page = ParsedPage(files["report.html"])
    assert "No findings" not in page.text.replace(f"{opening} No findings", "")
    assert "No findings need you" not in "".join(files.values())
    assert "None, but too little was compared" in page.text
    root = ET.fromstring(files["junit.xml"])  # noqa: S314  we wrote it
    errors = [case.get("name") for case in root.iter("testcase") if case.find("error") is not None]
    assert errors == [*(f"side {side}" for side in sides), *(BACKENDS[side] for side in sides)]
    assert root.get("errors") == str(2 * len(sides))
    for side in sides:
        assert f"side {side}: " in page.text
        assert f"* side {side}: " in files["summary.md"]


def test_a_whole_result_has_no_banner(tmp_path: Path) -> None:
    files = reported(tmp_path, healthy())
    summary = json.loads(files["summary.json"])
    assert summary["incomplete"] == []
    assert summary["verdict"] == (
        "No findings in 4 cases on 2 backends: of 8 comparisons 8 agree, 0 diverge, 0 are inconclusive."
    )
    assert 'role="alert"' not in files["report.html"]
    assert "Too little" not in "".join(files.values())
    assert ET.fromstring(files["junit.xml"]).get("errors") == "0"  # noqa: S314


def test_a_backend_whose_runs_were_all_lost_is_in_every_table(tmp_path: Path) -> None:
    files = reported(tmp_path, one_side_dead())
    summary = json.loads(files["summary.json"])
    counts = summary["sides"]["xla"]["backends"]["xla_spmd"]
    assert (counts["requested"], counts["completed"], sum(counts["lost"].values())) == (4, 0, 4)
    assert summary["sides"]["torch"]["backends"]["torch_tp"]["unsupported"] == {"no tp axis": 4}
    page = ParsedPage(files["report.html"])
    assert page.text.count("xla_spmd") >= 4, "banner, heat map, what was compared and agreement"
    assert "4 lost" in page.text
    assert page.tags.count("script") == 1, "its own"
    rows = [line for line in files["summary.md"].splitlines() if line.startswith("| ")]
    assert [row for row in rows if "hybrid | xla" in row.replace("\\", "")] == [
        "| hybrid | xla_spmd | 0 | 0 | 0 | 0 | 4 |"
    ]
    assert any(row.startswith("| torch | torch_tp | 0 | 0 | 0 | 0 | 0 | 4 |") for row in rows)
    root = ET.fromstring(files["junit.xml"])  # noqa: S314
    [suite] = (suite for suite in root if suite.get("name") == "xla_spmd")
    assert {one.get("name"): one.get("value") for one in suite.iter("property")} == {
        "requested": "4",
        "completed": "0",
        "inconclusive": "0",
        "lost": "4",
        "refused": "0",
        "unsupported": "0",
    }
    [skipped] = suite.iter("skipped")
    assert "nothing was compared: 4 lost (a node was lost" in str(skipped.get("message"))


def test_a_lost_comparison_among_others_is_counted_and_the_others_pass(tmp_path: Path) -> None:
    runs = [an_observation(index, "xla_spmd", path="hybrid") for index in range(99)]
    files = reported(tmp_path, [*runs, lost(99, "xla_spmd")])
    summary = json.loads(files["summary.json"])
    assert summary["incomplete"] == []
    assert summary["verdict"].endswith("99 agree, 0 diverge, 0 are inconclusive; 1 lost beside them.")
    [case] = (c for c in ET.fromstring(files["junit.xml"]).iter("testcase") if c.get("name") == "hybrid")  # noqa: S314
    assert [one.tag for one in case] == ["system-out"]
    assert "; beside them 1 lost (a node was lost" in str(case.findtext("system-out"))
    assert "99 agree, 0 diverge, 0 inconclusive, 1 lost" in files["report.html"]


def test_a_refused_comparison_is_not_said_to_be_lost(tmp_path: Path) -> None:
    runs = [an_observation(index, "xla_spmd", path="hybrid") for index in range(99)]
    unable = replace(lost(99, "xla_spmd"), verdict="refused", reason="its packages cannot")
    assert json.loads(reported(tmp_path, [*runs, unable])["summary.json"])["verdict"].endswith(
        "0 are inconclusive; 1 refused beside them."
    )


def test_a_report_is_about_its_last_campaign_and_not_about_healthier_ones_before(tmp_path: Path) -> None:
    before = [an_observation(index, name) for index in range(CASES) for name in ("torch_ddp", "xla_spmd")]
    after = [
        an_observation(100, "torch_ddp", campaign="second"),
        an_observation(101, "xla_spmd", "lost", reason="x", campaign="second", outcome=Ending(status="lost")),
    ]
    a_corpus(tmp_path, *before, *after)
    report = build(tmp_path)
    assert report.last_campaign == "second"
    assert [message.partition(":")[0] for message in report.incomplete] == ["side xla"]
    assert build(tmp_path, "first").incomplete == ()


def test_a_command_may_say_itself_what_is_missing(tmp_path: Path) -> None:
    a_corpus(tmp_path, *healthy())
    missing = "backend xla_ddp: compared 12 times on 20261121, and not once now"
    page, suites = (
        file.read_text()
        for file in write(tmp_path, ("html", "junit"), "first", Conclusion(incomplete=(missing,)))
    )
    assert missing in ParsedPage(page).text
    root = ET.fromstring(suites)  # noqa: S314
    assert [case.get("name") for case in root.iter("testcase") if case.find("error") is not None] == [
        "backend xla_ddp"
    ]
    assert root.get("errors") == "1"


def lacking(index: int, **changes: object) -> Observation:
    lack = Lack(operator="cummax", overload="cummax.default", reason="no sharding strategy")
    run = an_observation(index, "torch_dtensor", "unsupported", reason=lack.reason, lacks=(lack,))
    return replace(run, outcome=Ending(status="capability"), **changes)


def test_what_a_backend_lacks_is_a_row_and_neither_missing_nor_a_finding(tmp_path: Path) -> None:
    runs = [an_observation(0, "torch_dtensor"), lacking(1), lacking(2, dtype="float16"), lacking(3)]
    texts = reported(tmp_path, runs)
    row = "| cummax | torch_dtensor | no sharding strategy | cummax.default | float16, float32 | 3 |"
    assert row.replace("_", r"_") in texts["summary.md"]
    assert "cummax.default" in texts["report.html"]
    summary = json.loads(texts["summary.json"])
    assert summary["incomplete"] == []
    assert summary["sides"]["torch"]["requested"] == summary["sides"]["torch"]["completed"] == 1
    assert summary["sides"]["torch"]["unsupported"] == {"no sharding strategy": 3}


def test_lines_together_and_one_by_one_give_the_same_support_table() -> None:
    runs = [an_observation(0), lacking(1), lacking(2, dtype="float16"), lacking(3)]
    together, one_by_one = SupportTable(), SupportTable()
    together.add(Columns.of(runs))
    for run in runs:
        one_by_one.add(Columns.of([run]))
    assert together == one_by_one
    assert [row.programs for row in together.rows()] == [3]


def test_an_operator_is_one_line_of_the_support_table_whatever_it_lacks() -> None:
    refused, moved = (
        Lack(operator="qr", overload="linalg_qr", reason="OP falls back to the host"),
        Lack(operator="qr", reason="tensors leave the device within a step"),
    )
    nameless = tuple(Lack(operator="", overload=name, reason="no rule") for name in ("sort", "topk"))
    table = SupportTable()
    for index, lacks in enumerate([(refused, moved), (refused,), nameless]):
        table.add(Columns.of([replace(lacking(index), lacks=lacks)]))
    of_sort, of_topk, of_qr = table.rows()
    assert (of_sort.overload, of_topk.overload) == ("sort", "topk")
    assert of_qr.reason == "OP falls back to the host; tensors leave the device within a step"
    assert (of_qr.overload, of_qr.programs) == ("linalg_qr", 2)
