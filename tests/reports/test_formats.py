"""The formats of a report: any text stays text, numbers stay numbers, and findings come first."""

import json
import math
import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_findings import (
    BEGAN,
    HOSTILE_TEXT,
    VERSIONS,
    ParsedPage,
    a_corpus,
    a_finding,
    a_report,
    an_observation,
    rendered,
    several_observations,
)

from difftest.findings.causes import causes
from difftest.judge.outcome import Symptom
from difftest.records.conclusion import Conclusion
from difftest.records.corpus import Corpus
from difftest.records.observation import Ending
from reports import frame, tables
from reports.formats import html, markdown, summary
from reports.report import build
from reports.write import write

text = st.text(st.characters(codec="utf-8"), max_size=40)


def reject(token: str) -> None:
    msg = f"{token} is not JSON"
    raise ValueError(msg)


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(text, text, text), min_size=1, max_size=10))
def test_a_page_escapes_any_text(texts: list[tuple[str, str, str]]) -> None:
    evil = [
        a_finding(
            detail=f"{detail}</pre><img src=x>",
            log=detail,
            path=path,
            evidence={name: detail},
            fingerprint=detail,
        )
        for detail, path, name in texts
    ]
    page = ParsedPage(
        rendered(html, a_report(frame.load(Corpus(Path("nowhere"))), *evil, title=texts[0][0])).decode()
    )
    assert "img" not in page.tags
    assert page.tags.count("script") == 1, "its own"
    assert page.tags.count("article") == len(causes(evil))
    assert all(link.startswith("#") for link in page.links)


@pytest.mark.long
def test_the_page_shows_findings_first_and_links_their_cases(tmp_path: Path) -> None:
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(detail=HOSTILE_TEXT),))
    page = ParsedPage(write(tmp_path, ["html"])[0].read_text())
    assert page.tags.count("script") == 1, "its own"
    assert HOSTILE_TEXT in page.text
    fingerprint = a_finding().fingerprint
    parts = ("1 cause needs you.", fingerprint, "Diverging cases by backend", "Agreement by path")
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)
    files = [link for link in page.links if not link.startswith("#")]
    assert files == [f"corpus/{fingerprint}/case.json", f"corpus/{fingerprint}/finding.json"]
    assert all((tmp_path / link).is_file() for link in files)


def test_the_page_shows_what_a_finding_depends_on_and_where_it_first_shows(tmp_path: Path) -> None:
    ablations = {
        "it runs on one device, unsharded": "disappears",
        f"{HOSTILE_TEXT} runs it": "stays, 12.7 noise floors",
        "none": "no telling: why",
    }
    a_corpus(
        tmp_path,
        *several_observations(),
        findings=(a_finding(ablations=ablations, located=("forward, step 0: module 1 (RMSNorm)",)),),
    )
    page = ParsedPage(write(tmp_path, ["html"])[0].read_text())
    assert page.tags.count("script") == 1, "its own"
    for text_ in (
        "disappears when",
        "it runs on one device",
        "stays when",
        f"{HOSTILE_TEXT} runs it",
        "first wrong at",
        "module 1 (RMSNorm)",
    ):
        assert text_ in page.text, text_
    assert "no telling when" not in page.text


def test_the_page_shows_the_2_x_2_as_a_table_and_other_evidence_in_plain_words(tmp_path: Path) -> None:
    evidence = {
        "single": "agrees",
        "other_single": "no telling",
        "right_siblings": "xla_ddp",
        "versions of torch": "last good 2.8.0, first bad 2.9.0",
    }
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(evidence=evidence),))
    content = write(tmp_path, ["html"])[0].read_text()
    for cell in (
        '<th scope="row">xla_spmd</th><td class="agree">✓ agrees</td><td class="diverge">✗ diverges</td>',
        '<th scope="row">the torch side</th><td class="none">? undecided</td><td class="none">? not run</td>',
        "<dt>computed correctly by</dt><dd>xla_ddp</dd>",
        "<dt>versions of torch</dt><dd>last good 2.8.0, first bad 2.9.0</dd>",
    ):
        assert cell in content
    assert "other_single" not in content


def test_a_finding_that_is_new_to_the_last_campaign_is_new(tmp_path: Path) -> None:
    later = BEGAN + timedelta(days=1)
    old, new = (
        a_finding(new_in=("first", 0), announced="2026-01-05"),
        a_finding(fingerprint="xla_spmd-loss-crash-00000000", new_in=("second", 0), symptom=Symptom.CRASH),
    )
    runs = (an_observation(), an_observation(campaign="second", started=later.isoformat()))
    a_corpus(tmp_path, *runs, findings=(old, new))
    built = build(tmp_path)
    assert built.last_campaign == "second"
    assert built.new == {new.fingerprint}
    assert [f.fingerprint for f in built.findings] == [new.fingerprint, old.fingerprint]
    assert built.verdict.startswith("2 findings (1 new) in 1 case on 1 backend: of 1 comparison 1 agree")


@pytest.mark.long
def test_the_layer_at_fault_is_a_column_of_the_findings_that_every_format_has(tmp_path: Path) -> None:
    layer = "torch_xla: torchax is right"
    with_layer, without = (
        a_finding(evidence={"layer": layer}),
        a_finding(fingerprint="xla_spmd-loss-mismatch-00000000"),
    )
    assert tables.findings([with_layer, without])["layer"].tolist() == [layer, ""]
    a_corpus(tmp_path, *several_observations(), findings=(with_layer, without))
    page, told_json, content = (file.read_text() for file in write(tmp_path, ["html", "summary", "markdown"]))
    assert sorted(finding["layer"] for finding in json.loads(told_json)["findings"]) == ["", layer]
    assert f"| xla sharding fault | {markdown.cell(layer)} |" in content
    assert layer in ParsedPage(page).text


def test_findings_with_a_ledger_entry_are_in_the_verdict_and_in_every_format(tmp_path: Path) -> None:
    issue = "https://github.com/pytorch/xla/issues/9735"
    a_corpus(
        tmp_path,
        *several_observations(),
        findings=(
            a_finding(upstream=issue, new_in=("first", 0)),
            a_finding(fingerprint="xla_spmd-loss-mismatch-00000000", new_in=("first", 1)),
        ),
    )
    assert build(tmp_path, conclusion=Conclusion()).verdict.startswith("2 findings (1 new, 1 known) in 2")
    page, summary_text, content = (
        file.read_text() for file in write(tmp_path, ["html", "summary", "markdown"])
    )
    assert sorted(finding["upstream"] for finding in json.loads(summary_text)["findings"]) == ["", issue]
    assert "known upstream" + issue in ParsedPage(page).text.replace("\n", "")
    assert content.count(f"| {issue} |") == 1


def test_a_backends_versions_come_from_a_finished_run_if_there_is_one(tmp_path: Path) -> None:
    crash, fewer = Ending(status="crash"), {"torch": "2.9.0"}
    runs = (
        an_observation(0),
        an_observation(1, outcome=crash, environment=fewer),
        an_observation(1, "xla_spmd", outcome=crash, environment=fewer),
    )
    a_corpus(tmp_path, *runs)
    assert build(tmp_path).environment == {"torch_ddp": VERSIONS, "xla_spmd": fewer}


def test_markdown_has_the_agreement_in_noise_floors(tmp_path: Path) -> None:
    a_corpus(tmp_path, *several_observations())
    content = write(tmp_path, ["markdown"])[0].read_text()
    section = content.partition("## Greatest error in units of the rounding noise\n\n")[2]
    assert section.startswith("| path | backend | tensor stage | runs | median | p99 | greatest |\n")
    assert "| data parallel | torch_ddp | update | 1 | 2.00 | 2.00 | 2.00 |" in section


def test_markdown_says_what_to_do_in_the_words_of_the_page(tmp_path: Path) -> None:
    known = a_finding(upstream="https://github.com/pytorch/xla/issues/9735")
    unknown = a_finding(fingerprint="xla_spmd-loss-mismatch-00000000", stable=(2, 2))
    a_corpus(tmp_path, *several_observations(), findings=(known, unknown))
    whole, called = Conclusion(), {"xla_spmd": "XLA SPMD"}
    content = write(tmp_path, ["markdown"], conclusion=whole, called=called)[0].read_text()
    assert "**1 cause needs you. 1 is known.**" in content
    rows = content.partition("## Findings\n")[2].partition("\n## ")[0].strip().splitlines()[2:]
    assert ["| unknown |" in row for row in rows] == [True, False], "what needs somebody comes first"
    assert all(row.startswith("| XLA SPMD") for row in rows)
    agreement = content.partition("## Agreement by path and backend\n")[2].partition("\n## ")[0]
    assert "| XLA SPMD |" in agreement
    assert "xla_spmd" not in agreement


def test_the_summary_is_strict_json_with_the_tables_numbers(tmp_path: Path) -> None:
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(ratio=math.inf),))
    summary_ = json.loads(write(tmp_path, ["summary"])[0].read_text(), parse_constant=reject)
    assert summary_["verdicts"] == {"agree": 1, "diverge": 2, "inconclusive": 1}
    assert sum(summary_["verdicts"].values()) == summary_["comparisons"] == 4
    assert (summary_["cases"], summary_["runs"]) == (2, 7)
    assert summary_["backends"]["xla_spmd"] == {"cases": 2, "agree": 0, "diverge": 2, "inconclusive": 0}
    assert summary_["campaigns"] == [{"campaign": "first", "started": "2026-01-05T09:00:00+00:00", "runs": 7}]
    assert summary_["environment"]["xla_spmd"] == VERSIONS
    [finding] = summary_["findings"]
    assert {"fingerprint", "symptom", "stage", "backend", "path", "blame", "hits", "case"} <= set(finding)
    assert (tmp_path / finding["case_file"]).is_file()


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(), max_size=20))
def test_no_number_makes_the_summary_or_the_page_fail(ratios: list[float]) -> None:
    made_up = a_report(frame.load(Corpus(Path("nowhere"))), *(a_finding(ratio=ratio) for ratio in ratios))
    json.loads(rendered(summary, made_up), parse_constant=reject)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", rendered(html, made_up).decode(), flags=re.DOTALL)


def test_markdown_keeps_its_tables_whatever_text_a_finding_has(tmp_path: Path) -> None:
    a_corpus(
        tmp_path,
        *several_observations(),
        findings=(a_finding(detail=HOSTILE_TEXT, blame=HOSTILE_TEXT, paths=("a|b", "<i>")),),
    )
    content = write(tmp_path, ["markdown"])[0].read_text()
    rows = [line for line in content.splitlines() if line.startswith("| ")]
    widths = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in rows]
    assert widths == [10] * 6 + [10] * 3 + [8] * 6 + [8] * 6
    assert "<script" not in re.sub(r"(`{3,})text\n.*?\n\1\n", "", content, flags=re.DOTALL)
    assert "````text\n" in content


@given(text)
def test_a_markdown_cell_is_one_line_in_which_nothing_is_markup(value: str) -> None:
    shown = markdown.cell(value)
    assert len(shown.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*\[\]<>]", shown)


@pytest.mark.long
def test_markdown_stays_below_a_mebibyte_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    many = tuple(
        a_finding(
            fingerprint=f"xla_spmd-loss-mismatch-{n:08x}", detail="\N{SNOWMAN}|" * 3000, blame="|" * 500
        )
        for n in range(3000)
    )
    content = rendered(markdown, a_report(frame.load(a_corpus(tmp_path, *several_observations())), *many))
    assert len(content) < markdown.GREATEST_BYTES
    assert len(re.findall(rb"\d more: see report.html", content)) == 2
