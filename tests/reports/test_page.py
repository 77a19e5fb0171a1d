"""The page of a report: the numbers at its top, its heat map, and what was compared and what not."""

import re
from dataclasses import replace as with_fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sample_findings import BEGAN, ParsedPage, a_corpus, a_finding, a_measurement, a_report, an_observation

from difftest.cases.case_number import CaseNumber, Series
from difftest.findings.triage import Status
from difftest.judge.capability import Lack
from difftest.judge.outcome import Symptom
from difftest.records.conclusion import Conclusion
from difftest.records.corpus import CASE, FINDING, SCRIPT
from difftest.records.covered import Covered
from difftest.records.evidence import CORRECT_SIBLINGS
from difftest.records.observation import Ending, Observation
from reports import cells, frame, tables
from reports.covered import NOT_REACHED, sections
from reports.page import compared, errors, head, history, spoken, template
from reports.page.errors import of_runs
from reports.page.matrix import Square, of_meshes, of_paths, of_ranks
from reports.report import build
from reports.write import write

CALLED = {"torch_ddp": "DDP", "torch_tp": "parallelize_module", "xla_spmd": "XLA SPMD"}
MORE = "1 more are not supported"
FLOAT_1 = ("float32", "1")
KNOWN = "xla_spmd-loss-mismatch-00000001"
FIXED_SCRIPT = "difftest/findings/known/mean_over_uneven_shards.py"
ISSUE, SCRIPT_OF_LEDGER = "https://github.com/pytorch/xla/issues/9735", "difftest/findings/known/a_script.py"


def diverging(index: int, fingerprint: str, **changes: Any) -> Observation:  # noqa: ANN401  any field
    return an_observation(index, "xla_spmd", "diverge", fingerprints=(fingerprint,), **changes)


def ended(index: int, backend: str, verdict: str, reason: str, **changes: Any) -> Observation:  # noqa: ANN401
    return an_observation(index, backend, verdict, reason=reason, outcome=Ending(status=verdict), **changes)


def test_the_numbers_at_the_top_are_in_the_order_of_what_to_do(tmp_path: Path) -> None:
    findings = (
        a_finding(),
        a_finding(fingerprint="xla_spmd-loss-mismatch-00000001", upstream=SCRIPT_OF_LEDGER),
        a_finding(fingerprint="xla_spmd-loss-mismatch-00000002", upstream=ISSUE),
        a_finding(fingerprint="xla_spmd-loss-undefined-00000003", symptom=Symptom.UNDEFINED, tensor="output"),
    )
    program = CaseNumber(0, Series.PROGRAM)
    runs = [
        an_observation(0, started=BEGAN.isoformat(), seconds=60.0),
        an_observation(1, started=(BEGAN + timedelta(hours=2)).isoformat(), seconds=300.0),
        diverging(2, a_finding().fingerprint),
        an_observation(program.recorded, started=BEGAN.isoformat(), loss=frame.PROGRAM_LOSS),
        an_observation(program.recorded + 1, started=BEGAN.isoformat()),
    ]
    a_corpus(tmp_path, *runs, findings=findings)
    assert [(count.number, count.label) for count in head.counts(build(tmp_path))] == [
        ("1", "unknown, to look at"),
        ("1", "understood, not reported"),
        ("1", "reported upstream"),
        ("0", "fixed"),
        ("0", "unstable"),
        ("1", "left open by torch"),
        ("4 / 5", "comparisons agree"),
        ("4 / 4", "completed, torch side"),
        ("1 / 1", "completed, xla side"),
        ("4 + 1", "cases + programs"),
        ("5", "runs"),
        ("2 h 5 min", "from first to last run"),
    ]


def test_the_first_line_has_what_all_runs_of_the_campaign_ran_on(
    tmp_path: Path,
) -> None:
    torch, xla = (
        {"torch": "2.9.0", "device": "cpu"},
        {"torch": "2.9.0", "torch_xla": "2.9.0", "device": "CPU"},
    )
    a_corpus(
        tmp_path,
        an_observation(0, environment=torch | {"seed": "1"}),
        an_observation(1, environment=torch | {"seed": "2"}),
        an_observation(0, "xla_spmd", environment=xla),
    )
    report = build(tmp_path)
    assert head.versions(report) == "torch 2.9.0 · torch_xla 2.9.0 · torch side on CPU · xla side on CPU"
    assert head.when(report) == "first, 2026-01-05 09:00 UTC"


def squares(heat_map: dict[str, Any]) -> dict[tuple[str, str], Square]:
    return {
        (path, backend): square
        for path, row in heat_map["rows"]
        for backend, square in zip(heat_map["backends"], row, strict=True)
    }


def test_the_heat_map_has_a_colour_for_each_way_in_which_cases_of_a_path_ended(tmp_path: Path) -> None:
    known = a_finding(fingerprint=KNOWN, upstream=ISSUE)
    a_corpus(
        tmp_path,
        an_observation(0),
        diverging(0, a_finding().fingerprint),
        diverging(1, KNOWN, path="hybrid"),
        ended(1, "torch_ddp", "lost", "a node was lost", path="hybrid"),
        ended(2, "torch_ddp", "unsupported", "no tp axis", path="tensor_parallel"),
        ended(2, "xla_spmd", "inconclusive", "vague", path="tensor_parallel"),
        an_observation(3, path="collectives"),
        findings=(a_finding(), known),
    )
    shown = squares(of_paths(with_fields(build(tmp_path), called=CALLED)))
    assert {place: (square.kind, square.text) for place, square in shown.items()} == {
        ("data parallel", "DDP"): ("agree", "✓"),
        ("data parallel", "XLA SPMD"): ("unknown", "1"),
        ("hybrid", "DDP"): ("lost", "1"),
        ("hybrid", "XLA SPMD"): ("known", "1"),
        ("tensor parallel", "DDP"): ("none", "·"),
        ("tensor parallel", "XLA SPMD"): ("doubtful", "?"),
        ("collectives", "DDP"): ("agree", "✓"),
        ("collectives", "XLA SPMD"): ("none", "·"),
    }
    assert "no tp axis" in shown["tensor parallel", "DDP"].words
    assert "a node was lost" in shown["hybrid", "DDP"].words
    assert shown["collectives", "XLA SPMD"].words == "no such case was drawn"


def test_a_backend_that_no_row_concerns_is_named_below_the_maps_and_is_no_column(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(0), ended(0, "xla_spmd", "unsupported", "no tp axis"))
    shown = of_paths(with_fields(build(tmp_path), called=CALLED))
    assert (shown["backends"], shown["idle"]) == (["DDP"], ["XLA SPMD"])
    page = write(tmp_path, ["html"], called=CALLED)[0].read_text()
    assert "and why nothing was compared on XLA SPMD." in page
    assert re.findall(r'<th scope="col"><span>(.*?)</span>', page) == ["DDP"] * 3


def test_meshes_are_rows_by_axes_and_by_size(tmp_path: Path) -> None:
    axes, line = "dp=2 x tp=4", "the layout shards over two axes"
    a_corpus(
        tmp_path,
        an_observation(0, mesh="dp=8"),
        an_observation(1, mesh="dp=2"),
        diverging(2, a_finding().fingerprint, mesh=axes),
        ended(2, "torch_ddp", "unsupported", line, mesh=axes),
        findings=(a_finding(),),
    )
    report = with_fields(build(tmp_path), called=CALLED)
    by_axes, by_size = squares(of_meshes(report)), squares(of_ranks(report))
    assert [(place, square.kind) for place, square in by_axes.items()] == [
        (("dp", "DDP"), "agree"),
        (("dp", "XLA SPMD"), "none"),
        (("dp x tp", "DDP"), "none"),
        (("dp x tp", "XLA SPMD"), "unknown"),
    ]
    assert line in by_axes["dp x tp", "DDP"].words
    assert by_axes["dp", "DDP"].words.startswith("2 cases: 2 agree")
    assert list(dict.fromkeys(row for row, _ in by_size)) == ["2 ranks", "8 ranks"]
    assert by_size["8 ranks", "DDP"].words == f"1 case: 1 agree, 0 diverge, 0 inconclusive; {MORE}"


def test_every_run_is_a_dot_or_a_mark_that_leads_to_its_finding(tmp_path: Path) -> None:
    known = a_finding(fingerprint=KNOWN, upstream=ISSUE)
    beyond = {"measurements": (a_measurement(2.0), a_measurement(1e4))}
    a_corpus(
        tmp_path,
        *(
            an_observation(index, measurements=(a_measurement(ratio),))
            for index, ratio in enumerate((0.01, 1.0))
        ),
        an_observation(2, measurements=(a_measurement(5.0, exact=True),)),
        an_observation(3, outcome=Ending(status="crash")),
        diverging(4, a_finding().fingerprint, measurements=(a_measurement(1e30),)),
        diverging(5, KNOWN, **beyond),
        an_observation(6, "xla_spmd", "inconclusive", reason="vague", **beyond),
        findings=(a_finding(), known),
    )
    drawn = of_runs(with_fields(build(tmp_path), called=CALLED))
    ddp, spmd = drawn["strips"]
    assert (ddp.title, ddp.dots.count("M"), ddp.marks) == ("DDP", 2, ())
    assert ddp.words == "2 drawn, none beyond; not drawn: 1 failed, 1 exact"
    assert spmd.words == "3 drawn, 3 beyond"
    assert [(mark.kind, mark.link) for mark in spmd.marks] == [
        ("doubtful", ""),
        ("known", KNOWN),
        ("unknown", a_finding().fingerprint),
    ], "what nobody has explained is drawn last, so that nothing hides it"
    assert "10,000 x the rounding noise" in spmd.marks[1].words
    labels = [label for _, label in drawn["ticks"]]
    assert (labels[0], labels[-1]) == ("0.1", "\N{INFINITY}")
    places = [across for across, _ in drawn["ticks"]]
    assert places == sorted(places)
    assert places[0] < drawn["threshold"] < spmd.marks[1].across < spmd.marks[2].across


def test_errors_that_are_all_beyond_the_axis_are_at_its_end(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(0, measurements=(a_measurement(1e20),)))
    drawn = of_runs(build(tmp_path))
    assert [mark.across for mark in drawn["strips"][0].marks] == [errors.SCALE_ENDS_AT]


def test_a_page_of_many_wrong_runs_names_the_unknown_and_the_worst_and_marks_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "MOST_MARKS", 2)
    runs = [
        diverging(n, fingerprint, measurements=(a_measurement(size),))
        for n, (fingerprint, size) in enumerate(
            [(KNOWN, 1e3), (KNOWN, 1e8), (a_finding().fingerprint, 1e4), (KNOWN, 1e5), (KNOWN, 1e5)]
        )
    ]
    known = a_finding(fingerprint=KNOWN, upstream=ISSUE)
    a_corpus(tmp_path, *runs, findings=(a_finding(), known))
    (strip,) = of_runs(build(tmp_path))["strips"]
    shown = [(mark.kind, mark.link, mark.words.rpartition(": ")[2]) for mark in strip.marks]
    assert shown == [
        ("known", "", ""),
        ("known", "", ""),
        ("known", KNOWN, "1.0e8 x the rounding noise"),
        ("unknown", a_finding().fingerprint, "10,000 x the rounding noise"),
    ]
    page = write(tmp_path, ["html"])[0].read_text()
    assert page.count('class="bar-of known"') == 3, "those without words have the colour of their kind"


def test_runs_of_one_finding_at_one_place_are_one_mark(tmp_path: Path) -> None:
    runs = [diverging(n, KNOWN, measurements=(a_measurement(1e5),)) for n in range(3)]
    a_corpus(tmp_path, *runs, findings=(a_finding(fingerprint=KNOWN, upstream=ISSUE),))
    (strip,) = of_runs(build(tmp_path))["strips"]
    (mark,) = strip.marks
    assert mark.words.endswith("1.0e5 x the rounding noise; 2 more runs of this finding here")


def test_what_stands_in_backticks_in_a_title_is_code_and_nothing_in_it_is_markup() -> None:
    parts: Any = template.template("page/parts.jinja").module
    assert str(parts.with_code("`<b>` and `amax` reduce nothing <i>")) == (
        "<code>&lt;b&gt;</code> and <code>amax</code> reduce nothing &lt;i&gt;"
    )


def test_every_fingerprint_of_a_cause_is_an_address_on_the_page(tmp_path: Path) -> None:
    first, second = a_finding(upstream=ISSUE), a_finding(fingerprint=KNOWN, upstream=ISSUE)
    a_corpus(tmp_path, an_observation(0), findings=(first, second))
    content = write(tmp_path, ["html"])[0].read_text()
    assert content.count("<article") == 1
    assert all(content.count(f'id="{one.fingerprint}"') == 1 for one in (first, second))


def test_a_cause_on_several_backends_is_one_line_that_names_them(tmp_path: Path) -> None:
    first = a_finding(upstream=ISSUE, nature="zero", tensor="loss")
    second = replace(
        first, fingerprint=KNOWN, divergence=replace(first.divergence, backend="torch_ddp", side="torch")
    )
    a_corpus(tmp_path, an_observation(0), findings=(first, second))
    page = ParsedPage(write(tmp_path, ["html"], called=CALLED)[0].read_text())
    assert page.tags.count("article") == 1
    assert "XLA SPMD, DDP: wrong loss" in page.text or "DDP, XLA SPMD: wrong loss" in page.text


def test_tables_and_environment_have_no_key_and_nothing_of_one_case(tmp_path: Path) -> None:
    torch, xla = {"torch": "2.9.0", "numbers": "a1"}, {"torch": "2.9.0", "matmul_precision": "highest"}
    a_corpus(
        tmp_path,
        an_observation(0, environment=torch),
        an_observation(1, environment=torch | {"numbers": "b2"}),
        an_observation(1, "xla_spmd", environment=xla | {"numbers": "b2"}),
    )
    report = with_fields(build(tmp_path), called=CALLED)
    assert spoken.surroundings(report) == [
        ("matmul precision", "highest", "xla side"),
        ("torch", "2.9.0", ""),
    ]
    _, _, headings, rows = spoken.section(report, tables.sections(report.frame)[0])
    assert headings[:2] == [("path", False), ("backend", False)]
    assert rows == [["data parallel", "DDP", *"22000"], ["data parallel", "XLA SPMD", *"11000"]]


def test_what_was_not_tested_has_its_reasons(tmp_path: Path) -> None:
    axis, mixture = "no tp axis", "a mixture, which torch_tp refuses"
    spoken_of = "a mixture, which parallelize_module refuses"
    a_corpus(
        tmp_path,
        an_observation(0, "torch_tp"),
        *(ended(index, "torch_tp", "unsupported", axis) for index in (1, 2)),
        ended(3, "torch_tp", "unsupported", mixture),
        ended(4, "torch_tp", "lost", "a node was lost"),
    )
    assert compared.rows(with_fields(build(tmp_path), called=CALLED)) == [
        compared.Row("torch side", "", 1, 2, 50.0, ("1 lost", "3 not supported")),
        compared.Row(
            "parallelize_module",
            "torch_tp",
            1,
            2,
            50.0,
            (
                "1 lost: a node was lost",
                f"2 not supported: {axis}",
                f"1 not supported: {spoken_of}",
            ),
        ),
    ]


def test_tables_name_backends_and_operators_in_words_and_explain_what_stands_for_something(
    tmp_path: Path,
) -> None:
    lacks = (
        Lack(operator="mm", overload="mm.default", reason="OP falls back to the host with torch_xla #"),
        Lack(operator="", reason="dim # of OP() has no rule"),
        Lack(operator="bmm", reason="no rule"),
    )
    lacking = [ended(n, "xla_spmd", "unsupported", one.reason, lacks=(one,)) for n, one in enumerate(lacks)]
    covered = an_observation(9, "xla_spmd", covered=Covered(forward={"whole": ("add",)}))
    a_corpus(tmp_path, covered, *lacking)
    report = with_fields(build(tmp_path), called=CALLED)
    shown = {one.title: one for one in (*tables.sections(report.frame), *sections(report.frame))}
    _, note, _, rows = spoken.section(report, shown[tables.LACKING])
    assert rows == [
        ["one of a chain", "XLA SPMD", "dim N of a function has no rule", cells.NOTHING, *FLOAT_1],
        ["bmm", "XLA SPMD", "no rule", cells.NOTHING, *FLOAT_1],
        ["mm", "XLA SPMD", "an operator falls back to the host with this torch_xla", "mm.default", *FLOAT_1],
    ]
    assert all(word in note for word in ("one of a chain: ", "a dash: ", "N: a number"))
    _, _, _, rows = spoken.section(report, shown[NOT_REACHED])
    assert {reason for _, reason, *_ in rows} >= {"refused by XLA SPMD", "XLA SPMD refused its programs"}
    assert "xla_spmd" not in str(rows)


def test_backends_in_sentences_are_called_as_users_call_them(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation())
    report = with_fields(build(tmp_path), called=CALLED)
    assert spoken.sentence(report, "side xla: xla_spmd@2.8: 4 lost (# of OP); my_xla_spmd") == (
        "side xla: XLA SPMD (2.8): 4 lost (N of an operator); my_xla_spmd"
    )
    of_oracle = with_fields(report, called=CALLED | {"oracle": "the float64 reference"})
    assert spoken.sentence(of_oracle, "float64, in which the oracle computes") == (
        "float64, in which the float64 reference computes"
    )
    assert spoken.sentence(build(tmp_path), "xla_spmd: OP") == "xla_spmd: an operator", "nobody gave names"
    lost = Conclusion(incomplete=("backend xla_spmd: 4 lost (OP)",))
    page = write(tmp_path, ["html"], "first", lost, CALLED)[0].read_text()
    assert "backend XLA SPMD: 4 lost (an operator)" in ParsedPage(page).text


def test_a_reason_has_words_where_what_is_counted_has_placeholders() -> None:
    assert spoken.reason("OP falls back to the host with torch_xla #") == (
        "an operator falls back to the host with this torch_xla"
    )
    assert spoken.reason("OP() fails, and so does STOP") == "a function fails, and so does STOP"
    assert spoken.reason("Operator OP has no strategy") == "an operator has no strategy"
    assert spoken.reason("failed for Op(op=OP, args") == "failed for an operator"
    assert spoken.reason("word " * 24)[-6:] == "word …", "its end was cut when it was recorded"


@pytest.mark.parametrize("upstream", [ISSUE, SCRIPT_OF_LEDGER])
def test_a_finding_links_what_there_is_of_it_and_names_no_key(tmp_path: Path, upstream: str) -> None:
    finding = replace(a_finding(upstream=upstream), evidence={CORRECT_SIBLINGS: "torch_ddp"}, stable=(2, 2))
    corpus = a_corpus(tmp_path, an_observation(0), findings=(finding,))
    (corpus.root / finding.fingerprint / SCRIPT).write_text("print()")
    content = write(tmp_path, ["html"], called=CALLED)[0].read_text()
    page = ParsedPage(content)
    folder = f"corpus/{finding.fingerprint}"
    links = [f"{folder}/{name}" for name in (SCRIPT, CASE, FINDING)] + [ISSUE] * (upstream == ISSUE)
    assert [link for link in page.links if not link.startswith("#")] == links
    assert "<dt>computed correctly by</dt><dd>DDP</dd>" in content
    assert ("shown by the script" in page.text) == (upstream == SCRIPT_OF_LEDGER)
    assert "reproduced 2 of 2" in page.text
    assert not [key for key in ("right_siblings", "other_single", "decided_by\n") if key in page.text]


def test_a_cause_is_marked_as_new_where_an_earlier_campaign_was_without_it(tmp_path: Path) -> None:
    """Of a folder's first campaign all are new, which says nothing."""
    finding = replace(a_finding(), new_in=("second", 0), announced=BEGAN.date().isoformat())
    later = (BEGAN + timedelta(days=1)).isoformat()
    shown = diverging(0, finding.fingerprint, campaign="second", started=later)
    corpus = a_corpus(tmp_path, shown, findings=(finding,))
    (cause,) = build(tmp_path).causes
    assert not build(tmp_path).has_new(cause)
    corpus.observe(an_observation(1))
    assert build(tmp_path).has_new(cause)


def test_the_history_has_a_row_for_each_night_the_last_one_first(tmp_path: Path) -> None:
    later = BEGAN + timedelta(days=1)
    night = {"campaign": "second", "started": later.isoformat(), "seconds": 1800.0}
    covered = Covered(forward={"whole": ("add", "mul")})
    fixed = replace(a_finding(fingerprint=KNOWN, upstream=ISSUE), status=str(Status.FIXED))
    a_corpus(
        tmp_path,
        diverging(0, KNOWN, seconds=3600.0),
        an_observation(1, covered=covered),
        diverging(0, KNOWN, **night),
        diverging(2, a_finding().fingerprint, **night),
        findings=(a_finding(), replace(fixed, checked=(BEGAN + timedelta(hours=5)).isoformat())),
    )
    names = [name for name, _ in history.COLUMNS]
    last, first = history.nights(build(tmp_path))
    assert (last.campaign, first.campaign, first.began) == ("second", "first", "2026-01-05 09:00")
    assert dict(zip(names, first.numbers, strict=True)) == {
        "new": "1",
        "need you": "0",
        "shown": "1",
        "fixed": "1",
        "agree, %": "50",
        "cases": "2",
        "per hour": "2",
        "operators": "2",
    }
    assert dict(zip(names, last.numbers, strict=True)) == {
        "new": "1",
        "need you": "1",
        "shown": "2",
        "fixed": "0",
        "agree, %": "0",
        "cases": "2",
        "per hour": "4",
        "operators": "",
    }
    assert (first.bars[2], last.bars[2]) == (50.0, 100.0)
    page = ParsedPage(write(tmp_path, ["html"])[0].read_text())
    assert "The history begins with the second" not in page.text


def test_the_history_counts_causes_as_the_headline_does(tmp_path: Path) -> None:
    """One fault on two backends is one cause; the second night shows it again on the other backend."""
    first = a_finding(upstream=ISSUE)
    second = replace(
        first, fingerprint=KNOWN, divergence=replace(first.divergence, backend="torch_ddp", side="torch")
    )
    night = {"campaign": "second", "started": (BEGAN + timedelta(days=1)).isoformat()}
    unknown = a_finding(fingerprint="xla_spmd-loss-mismatch-00000009")
    a_corpus(
        tmp_path,
        diverging(0, first.fingerprint),
        diverging(1, KNOWN),
        diverging(2, KNOWN, **night),
        diverging(3, unknown.fingerprint, **night),
        findings=(first, second, unknown),
    )
    report = build(tmp_path)
    assert report.headline == "1 cause needs you. 1 is known."
    numbers = [night.numbers[:3] for night in history.nights(report)]
    assert numbers == [("1", "1", "2"), ("1", "0", "1")]


def test_a_cause_is_fixed_in_the_night_after_which_nothing_of_it_was_left(tmp_path: Path) -> None:
    morning, noon = ((BEGAN + timedelta(hours=hours)).isoformat() for hours in (3, 30))
    first = replace(a_finding(upstream=ISSUE), status=str(Status.FIXED), checked=morning)
    second = replace(first, fingerprint=KNOWN, checked=noon)
    night = {"campaign": "second", "started": (BEGAN + timedelta(days=1)).isoformat()}
    runs = (diverging(0, KNOWN), an_observation(1, **night))
    a_corpus(tmp_path / "both", *runs, findings=(first, second))
    assert [night.numbers[3] for night in history.nights(build(tmp_path / "both"))] == ["1", "0"]
    a_corpus(tmp_path / "one", *runs, findings=(first, replace(second, status="")))
    assert [night.numbers[3] for night in history.nights(build(tmp_path / "one"))] == ["0", "0"]


def test_a_fixed_finding_names_the_release(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(0), findings=(a_finding(upstream=FIXED_SCRIPT),))
    content = write(tmp_path, ["html"])[0].read_text()
    assert '<span class="tag plain">fixed in torch 2.15.0</span>' in content


def test_an_empty_report_says_so(tmp_path: Path) -> None:
    a_corpus(tmp_path)
    page = ParsedPage(write(tmp_path, ["html"])[0].read_text())
    assert "No findings need you." not in page.text
    assert "Nothing was compared yet." in page.text
    assert "The history begins with the second" in page.text
    assert a_report(build(tmp_path).frame).groups.keys() == build(tmp_path).groups.keys()


def test_a_square_leads_to_a_finding_that_needs_somebody_first(tmp_path: Path) -> None:
    known = a_finding(fingerprint="xla_spmd-loss-mismatch-00000002", upstream=ISSUE)
    runs = (diverging(0, known.fingerprint), diverging(1, a_finding().fingerprint), an_observation(2))
    a_corpus(tmp_path, *runs, findings=(known, a_finding()))
    ((_, squares),) = of_paths(build(tmp_path))["rows"]
    assert sorted(square.link for square in squares) == ["", a_finding().fingerprint]
    page = write(tmp_path, ["html"])[0].read_text()
    assert f'<a href="#{a_finding().fingerprint}"' in page
    assert f'id="{a_finding().fingerprint}"' in page, "the link leads to a line of the page"


def test_findings_have_marks_of_the_nights_and_the_history_a_curve(tmp_path: Path) -> None:
    runs = [
        diverging(night, a_finding().fingerprint, campaign=f"night{night}", started=at)
        if night != 1
        else an_observation(night, campaign=f"night{night}", started=at)
        for night, at in enumerate((BEGAN + timedelta(days=day)).isoformat() for day in range(3))
    ]
    a_corpus(tmp_path, *runs, findings=(a_finding(environment={"torch": "2.9.0"}),))
    report = build(tmp_path)
    assert history.marks(report) == {a_finding().fingerprint: "●○●"}
    drawn = history.drawn(history.nights(report))
    assert (drawn.shown, drawn.new, drawn.most) == (
        "M0 5.0L500 115.0L1000 5.0",
        "M0 5.0L500 115.0L1000 115.0",
        "1",
    )
    text = ParsedPage(write(tmp_path, ["html"])[0].read_text()).text
    assert "nights ●○●" in text
    assert "first seen withtorch 2.9.0" in text.replace("\n", "")
    assert "ownerpytorch/xla" in text.replace("\n", "")
