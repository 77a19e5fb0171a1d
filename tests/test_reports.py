"""Reports: the long table, the tables made of it, and every format, on corpora made here."""

import io
import json
import math
import re
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
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
    a_measurement,
    a_report,
    an_observation,
    several_observations,
)

from difftest import plugins
from difftest.errors import UsageError
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Symptom
from difftest.records.corpus import Corpus
from difftest.records.observation import Ending, Observation
from reports import cells, frame, tables
from reports.formats import html, markdown, summary
from reports.report import build, merged
from reports.write import DEFAULT_FORMATS, FORMATS, write

QUERY = """
t = pd.read_parquet("runs/first/table.parquet")
d = t[t.verdict == "diverge"]
answer = d.groupby(["path", "backend", "world_size"]).case.nunique()
"""

text = st.text(st.characters(codec="utf-8"), max_size=40)
words = st.sampled_from(("torch_ddp", "xla_spmd", "data_parallel", "tensor_parallel", "a|b", "<b>"))
verdicts = st.sampled_from(tables.VERDICTS)
magnitudes = st.floats(0.0, 1e30)


def reject(token: str) -> None:
    msg = f"{token} is not JSON"
    raise ValueError(msg)


def test_the_table_has_exactly_the_documented_columns(tmp_path: Path) -> None:
    for t in (
        frame.load(a_corpus(tmp_path / "empty")),
        frame.load(a_corpus(tmp_path / "some", *several_observations())),
    ):
        assert {name: str(dtype) for name, dtype in t.dtypes.items()} == {
            c.name: c.dtype for c in frame.COLUMNS
        }
    assert all(f"| `{c.name}` | `{c.dtype}` | {c.meaning} |" in frame.describe() for c in frame.COLUMNS)


def test_a_row_is_a_tensor_of_a_run(tmp_path: Path) -> None:
    t = frame.load(a_corpus(tmp_path, *several_observations()))
    assert len(t) == sum(max(1, len(o.measurements)) for o in several_observations())
    assert t["run"].nunique() == len(several_observations())
    first = t[(t["backend"] == "torch_ddp") & (t["index"] == 0)]
    assert first["tensor"].tolist() == ["loss", "0.weight"]
    assert first["ratio"].tolist() == [0.5, 2.0]
    assert first["started"].tolist() == [pd.Timestamp(BEGAN)] * 2


def test_a_run_without_measurements_is_one_row_of_nulls(tmp_path: Path) -> None:
    t = frame.load(a_corpus(tmp_path, *several_observations()))
    row = t[t["status"] == "crash"].iloc[0]
    assert row[[c.name for c in frame.TENSOR]].isna().all()
    assert (row["stage"], row["failed_step"], row["kind"], row["fingerprint"]) == (
        "backward",
        1,
        "SIGSEGV",
        "a-b-c-00000000",
    )
    assert row["fingerprints"] == "a-b-c-00000000 a-b-d-00000001"
    assert t[t["status"] == "finished"][["stage", "failed_step", "kind", "message"]].isna().all(axis=None)


def test_the_order_does_not_depend_on_who_finished_first(tmp_path: Path) -> None:
    ahead = frame.load(a_corpus(tmp_path / "ahead", *several_observations()))
    behind = frame.load(a_corpus(tmp_path / "behind", *reversed(several_observations())))
    pd.testing.assert_frame_equal(ahead, behind)


def test_the_three_line_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_corpus(tmp_path / "runs/first", *several_observations())
    write(tmp_path / "runs/first", ["parquet"])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"pd": pd}
    exec(QUERY, names)  # noqa: S102 - it is what docs/table.md tells people to type
    assert names["answer"].to_dict() == {
        ("data_parallel", "xla_spmd", 2): 1,
        ("tensor_parallel", "xla_spmd", 4): 1,
    }


@pytest.mark.parametrize("observations", [(), several_observations()], ids=["empty", "several"])
def test_parquet_gives_the_table_back(tmp_path: Path, observations: tuple[Observation, ...]) -> None:
    corpus = a_corpus(tmp_path, *observations)
    [file] = write(tmp_path, ["parquet"])
    pd.testing.assert_frame_equal(pd.read_parquet(file), frame.load(corpus))


def test_csv_gives_the_rows_back(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, *several_observations())
    [file] = write(tmp_path, ["csv"])
    t, back = frame.load(corpus), pd.read_csv(file)
    assert list(back.columns) == list(t.columns)
    assert back["ratio"].tolist() == pytest.approx(t["ratio"].tolist(), nan_ok=True)


def test_every_format_renders_an_empty_corpus(tmp_path: Path) -> None:
    a_corpus(tmp_path)
    assert [file.name for file in write(tmp_path)] == [
        "table.parquet",
        "summary.json",
        "summary.md",
        "report.html",
    ]
    assert all(file.stat().st_size for file in write(tmp_path, plugins.names(FORMATS)))
    assert (
        json.loads((tmp_path / "summary.json").read_text())["verdict"]
        == "No findings; nothing was compared yet."
    )


def test_every_format_satisfies_the_protocol() -> None:
    assert set(DEFAULT_FORMATS) < set(plugins.names(FORMATS))
    modules = [plugins.load(FORMATS, name) for name in plugins.names(FORMATS)]
    assert all(callable(module.render) and module.__doc__ for module in modules)
    assert len({module.FILENAME for module in modules}) == len(modules)


def test_the_tables_count_what_the_table_holds(tmp_path: Path) -> None:
    t = frame.load(a_corpus(tmp_path, *several_observations()))
    agreement = tables.agreement(t).set_index(["path", "backend"]).to_dict("index")
    assert agreement["data_parallel", "xla_spmd"] == {"cases": 1, "agree": 0, "diverge": 1, "inconclusive": 0}
    assert agreement["tensor_parallel", "torch_ddp"] == {
        "cases": 1,
        "agree": 0,
        "diverge": 0,
        "inconclusive": 1,
    }
    assert tables.diverging(t)[["world_size", "cases", "diverge"]].to_numpy().tolist() == [
        [2, 1, 1],
        [4, 1, 1],
    ]
    [failure] = tables.failures(t).to_dict("records")
    assert failure == {
        "symptom": "crash",
        "stage": "backward",
        "backend": "xla_spmd",
        "kind": "SIGSEGV",
        "runs": 1,
        "cases": 1,
    }
    assert tables.run_times(t)["runs"].sum() == len(several_observations())


def test_ratios_are_those_of_the_farthest_tensor_and_leave_exact_ones_out(tmp_path: Path) -> None:
    ratios = (
        tables.greatest_ratios(frame.load(a_corpus(tmp_path, *several_observations())))
        .set_index(["path", "backend", "tensor_stage"])
        .to_dict("index")
    )
    assert ratios["data_parallel", "torch_ddp", "update"]["greatest"] == 2.0
    assert ratios["data_parallel", "xla_spmd", "forward"] == {
        "runs": 1,
        "median": 1e30,
        "p99": 1e30,
        "greatest": 1e30,
    }


def test_the_worst_verdict_of_two_campaigns_counts(tmp_path: Path) -> None:
    runs = (an_observation(verdict="diverge"), an_observation(campaign="second", verdict="agree"))
    assert tables.agreement(frame.load(a_corpus(tmp_path, *runs)))[
        ["cases", "diverge"]
    ].to_numpy().tolist() == [[1, 1]]


def test_planted_and_null_runs_are_not_counted(tmp_path: Path) -> None:
    t = frame.load(
        a_corpus(
            tmp_path,
            an_observation(),
            an_observation(1, verdict="diverge", purpose="planted"),
            an_observation(2, purpose="null"),
        )
    )
    assert tables.agreement(t)["cases"].sum() == 1
    assert not len(tables.diverging(t))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.builds(an_observation, st.integers(0, 5), words, verdicts, dtype=words, reason=text), max_size=12
    )
)
def test_verdicts_add_up(observations: list[Observation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        t = frame.load(a_corpus(Path(folder), *observations))
    assert t["run"].nunique() == len(observations)
    for by in (("path", "backend"), ("backend", "world_size"), ("regime",)):
        table = tables.verdict_counts(t, by)
        counted = table["cases" if "backend" in by else "comparisons"]
        assert (table["agree"] + table["diverge"] + table["inconclusive"]).tolist() == counted.tolist()
        assert counted.sum() == len({(o.case, o.backend) for o in observations})


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.builds(a_measurement, magnitudes, tensor=text, error=magnitudes, exact=st.booleans()), max_size=6
    ),
    text,
    text,
)
def test_whatever_was_measured_comes_back_from_parquet(
    measurements: list[Measurement], path: str, reason: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        t = frame.load(
            a_corpus(out, an_observation(measurements=tuple(measurements), path=path, reason=reason))
        )
        files = write(out, plugins.names(FORMATS))
        pd.testing.assert_frame_equal(pd.read_parquet(out / "table.parquet"), t)
        assert len(files) == len(plugins.names(FORMATS))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(text, text, text), min_size=1, max_size=10))
def test_a_page_holds_any_text_as_text(texts: list[tuple[str, str, str]]) -> None:
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
        html.render(a_report(frame.load(Corpus(Path("nowhere"))), *evil, title=texts[0][0])).decode()
    )
    assert not {"script", "img"} & set(page.tags)
    assert page.tags.count("article") == len(texts)
    assert all(link.startswith("corpus/") for link in page.links)


def test_the_page_shows_findings_first_and_links_their_cases(tmp_path: Path) -> None:
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(detail=HOSTILE_TEXT),))
    page = ParsedPage(write(tmp_path, ["html"])[0].read_text())
    assert "script" not in page.tags
    assert HOSTILE_TEXT in page.text
    assert (
        page.text.index("Findings")
        < page.text.index(a_finding().fingerprint)
        < page.text.index("Agreement by path")
    )
    assert all((tmp_path / link).is_file() for link in page.links)
    assert not [link for link in page.links if "://" in link]


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
    assert "script" not in page.tags
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
        "right beside it": "xla_ddp",
        "versions of torch": "last good 2.8.0, first bad 2.9.0",
    }
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(evidence=evidence),))
    content = write(tmp_path, ["html"])[0].read_text()
    for cell in (
        '<th scope="row">xla_spmd</th><td>agrees</td><td>diverges</td>',
        '<th scope="row">the other side</th><td>undecided</td><td>not run</td>',
        "<dt>computed correctly by</dt><dd>xla_ddp</dd>",
        "<dt>versions of torch</dt><dd>last good 2.8.0, first bad 2.9.0</dd>",
    ):
        assert cell in content
    assert "other_single" not in content


def test_a_finding_is_new_when_the_last_campaign_saw_it_first(tmp_path: Path) -> None:
    later = BEGAN + timedelta(days=1)
    old, new = (
        a_finding(),
        a_finding(
            fingerprint="xla_spmd-loss-crash-00000000", first_seen=later.isoformat(), symptom=Symptom.CRASH
        ),
    )
    runs = (an_observation(), an_observation(campaign="second", started=later.isoformat()))
    a_corpus(tmp_path, *runs, findings=(old, new))
    built = build(tmp_path)
    assert built.last_campaign == "second"
    assert built.new == {new.fingerprint}
    assert [f.fingerprint for f in built.findings] == [new.fingerprint, old.fingerprint]
    assert built.verdict.startswith("2 findings (1 new) in 1 case on 1 backend: of 1 comparison 1 agree")


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
        findings=(a_finding(upstream=issue), a_finding(fingerprint="xla_spmd-loss-mismatch-00000000")),
    )
    assert build(tmp_path).verdict.startswith("2 findings (2 new, 1 known upstream) in 2 cases")
    page, summary_text, content = (
        file.read_text() for file in write(tmp_path, ["html", "summary", "markdown"])
    )
    assert sorted(finding["upstream"] for finding in json.loads(summary_text)["findings"]) == ["", issue]
    assert "known upstream" + issue in ParsedPage(page).text.replace("\n", "")
    assert content.count(f"| {issue} |") == 1


def test_a_backends_versions_are_those_of_a_run_that_finished_where_one_did(tmp_path: Path) -> None:
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
    assert "| data_parallel | torch_ddp | update | 1 | 2.00 | 2.00 | 2.00 |" in section


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


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(), max_size=20))
def test_no_number_makes_the_summary_or_the_page_fail(ratios: list[float]) -> None:
    made_up = a_report(frame.load(Corpus(Path("nowhere"))), *(a_finding(ratio=ratio) for ratio in ratios))
    json.loads(summary.render(made_up), parse_constant=reject)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", html.render(made_up).decode(), flags=re.DOTALL)


def test_markdown_keeps_its_tables_whatever_text_a_finding_has(tmp_path: Path) -> None:
    a_corpus(
        tmp_path,
        *several_observations(),
        findings=(a_finding(detail=HOSTILE_TEXT, blame=HOSTILE_TEXT, paths=("a|b", "<i>")),),
    )
    content = write(tmp_path, ["markdown"])[0].read_text()
    rows = [line for line in content.splitlines() if line.startswith("| ")]
    widths = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in rows]
    assert widths == [12] * 3 + [7] * 6 + [8] * 6
    assert "<script" not in re.sub(r"(`{3,})text\n.*?\n\1\n", "", content, flags=re.DOTALL)
    assert "````text\n" in content


@given(text)
def test_a_markdown_cell_is_one_line_in_which_nothing_is_markup(value: str) -> None:
    shown = markdown.cell(value)
    assert len(shown.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*\[\]<>]", shown)


def test_markdown_stays_below_a_mebibyte_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    many = tuple(
        a_finding(
            fingerprint=f"xla_spmd-loss-mismatch-{n:08x}", detail="\N{SNOWMAN}|" * 3000, blame="|" * 500
        )
        for n in range(3000)
    )
    content = markdown.render(a_report(frame.load(a_corpus(tmp_path, *several_observations())), *many))
    assert len(content) < markdown.GREATEST_BYTES
    assert len(re.findall(rb"\d more: see report.html", content)) == 2


def test_numbers_read_well() -> None:
    values = (
        None,
        math.nan,
        math.inf,
        -math.inf,
        1e30,
        0.0,
        0.1234567,
        12345,
        12345.6,
        5.0,
        999.7,
        310000.0,
        4.6e-7,
        "",
        "a_b",
        pd.NA,
    )
    expected = [
        "–",
        "–",
        "∞",
        "-∞",
        "∞",
        "0",
        "0.123",
        "12,345",
        "12,346",
        "5.00",
        "1,000",
        "3.1e5",
        "4.6e-7",
        "–",
        "a_b",
        "–",
    ]
    assert [cells.shown(value) for value in values] == expected


def test_times_are_shown_to_the_minute_in_utc() -> None:
    assert cells.moment("2026-01-05T10:30:59+01:00") == "2026-01-05 09:30"
    assert cells.moment("last week") == "last week"


def test_versions_are_shown_once_if_all_backends_agree() -> None:
    environment = {"a": {"torch": "2.9", "xla": "2.9"}, "b": {"torch": "2.9"}}
    assert merged(environment) == (("torch", "2.9", ()), ("xla", "2.9", ("a",)))


def test_a_folder_without_a_corpus_is_named_with_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no corpus; expected a folder .*corpus"):
        write(tmp_path)


def test_an_unknown_format_is_named_with_what_is_allowed(tmp_path: Path) -> None:
    a_corpus(tmp_path)
    with pytest.raises(UsageError, match="unknown format 'pdf'; allowed: csv, html"):
        write(tmp_path, ["pdf"])
    assert not list(tmp_path.glob("*.*"))


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    a_corpus(tmp_path)
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*summary\.json"):
        write(tmp_path, ["summary"])


def test_observations_of_a_newer_version_are_refused_by_name(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, an_observation(), msgspec.structs.replace(an_observation(1), schema=99))
    with pytest.raises(UsageError, match=r"observations/first\.jsonl, line 2: schema 99"):
        frame.load(corpus)


def test_a_finding_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    a_corpus(tmp_path, findings=(a_finding(schema=99),))
    with pytest.raises(UsageError, match=rf"{a_finding().fingerprint}/finding\.json: .*schema 99"):
        write(tmp_path)


def test_writing_leaves_nothing_unfinished(tmp_path: Path) -> None:
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(),))
    files = write(tmp_path, plugins.names(FORMATS))
    assert {file.name for file in tmp_path.iterdir()} == {"corpus", *(file.name for file in files)}
    assert pd.read_csv(io.BytesIO((tmp_path / "table.csv").read_bytes())).shape[0] == 9
