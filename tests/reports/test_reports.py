"""Reports: the long table, the tables derived from it, and every format, on small corpora."""

import errno
import io
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_findings import (
    BEGAN,
    a_corpus,
    a_finding,
    a_measurement,
    an_observation,
    several_observations,
)

from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.judge.measured import Measurement
from difftest.records.observation import Observation
from reports import cells, columns, frame, tables
from reports.report import merged
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


def test_the_table_has_exactly_the_documented_columns(tmp_path: Path) -> None:
    for t in (
        frame.load(a_corpus(tmp_path / "empty")).whole(),
        frame.load(a_corpus(tmp_path / "some", *several_observations())).whole(),
    ):
        assert {name: str(dtype) for name, dtype in t.dtypes.items()} == {
            c.name: c.dtype for c in columns.COLUMNS
        }
    assert all(f"| `{c.name}` | `{c.dtype}` | {c.meaning} |" in columns.describe() for c in columns.COLUMNS)


def test_each_row_is_one_tensor_of_a_run(tmp_path: Path) -> None:
    t = frame.load(a_corpus(tmp_path, *several_observations())).whole()
    assert len(t) == sum(max(1, len(o.measurements)) for o in several_observations())
    assert t["run"].nunique() == len(several_observations())
    first = t[(t["backend"] == "torch_ddp") & (t["index"] == 0)]
    assert first["tensor"].tolist() == ["loss", "0.weight"]
    assert first["ratio"].tolist() == [0.5, 2.0]
    assert first["started"].tolist() == [pd.Timestamp(BEGAN)] * 2


def test_a_run_without_measurements_is_one_row_of_nulls(tmp_path: Path) -> None:
    t = frame.load(a_corpus(tmp_path, *several_observations())).whole()
    row = t[t["status"] == "crash"].iloc[0]
    assert row[[c.name for c in columns.TENSOR]].isna().all()
    assert (row["stage"], row["failed_step"], row["kind"], row["fingerprint"]) == (
        "backward",
        1,
        "SIGSEGV",
        "a-b-c-00000000",
    )
    assert row["fingerprints"] == "a-b-c-00000000 a-b-d-00000001"
    assert t[t["status"] == "finished"][["stage", "failed_step", "kind", "message"]].isna().all(axis=None)


def test_the_order_of_rows_does_not_depend_on_which_run_finished_first(tmp_path: Path) -> None:
    ahead = frame.load(a_corpus(tmp_path / "ahead", *several_observations())).whole()
    behind = frame.load(a_corpus(tmp_path / "behind", *reversed(several_observations()))).whole()
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
def test_the_table_survives_a_round_trip_through_parquet(
    tmp_path: Path, observations: tuple[Observation, ...]
) -> None:
    corpus = a_corpus(tmp_path, *observations)
    [file] = write(tmp_path, ["parquet"])
    pd.testing.assert_frame_equal(pd.read_parquet(file), frame.load(corpus).whole())


def test_the_rows_survive_a_round_trip_through_csv(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, *several_observations())
    [file] = write(tmp_path, ["csv"])
    t, back = frame.load(corpus).whole(), pd.read_csv(file)
    assert list(back.columns) == list(t.columns)
    assert back["ratio"].tolist() == pytest.approx(t["ratio"].tolist(), nan_ok=True)


@pytest.mark.long
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
        json.loads((tmp_path / "summary.json").read_text())["verdict"] == "Nothing was compared. No findings."
    )


def test_every_format_satisfies_the_protocol() -> None:
    assert set(DEFAULT_FORMATS) < set(plugins.names(FORMATS))
    modules = [plugins.load(FORMATS, name) for name in plugins.names(FORMATS)]
    assert all(callable(module.render) and module.__doc__ for module in modules)
    assert len({module.FILENAME for module in modules}) == len(modules)


def test_the_tables_count_the_rows_of_the_long_table(tmp_path: Path) -> None:
    t = frame.load(a_corpus(tmp_path, *several_observations()))
    agreement = tables.agreement(t).set_index(["path", "backend"]).to_dict("index")
    assert agreement["data_parallel", "xla_spmd"] == {
        "cases": 1,
        "agree": 0,
        "diverge": 1,
        "inconclusive": 0,
        "lost": 0,
    }
    assert agreement["tensor_parallel", "torch_ddp"] == {
        "cases": 1,
        "agree": 0,
        "diverge": 0,
        "inconclusive": 1,
        "lost": 0,
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


def test_ratios_are_those_of_the_worst_tensor_without_exact_ones(tmp_path: Path) -> None:
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


def test_the_worse_verdict_of_two_campaigns_counts(tmp_path: Path) -> None:
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


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.builds(an_observation, st.integers(0, 5), words, verdicts, dtype=words, reason=text), max_size=12
    )
)
def test_verdicts_add_up(observations: list[Observation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        t = frame.load(a_corpus(Path(folder), *observations))
    assert t.runs["run"].nunique() == len(observations)
    for by in (("path", "backend"), ("backend", "world_size"), ("regime",)):
        table = tables.verdict_counts(t, by)
        counted = table["cases" if "backend" in by else "comparisons"]
        assert (table["agree"] + table["diverge"] + table["inconclusive"]).tolist() == counted.tolist()
        assert counted.sum() == len({(o.case, o.backend) for o in observations})


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.builds(a_measurement, magnitudes, tensor=text, error=magnitudes, exact=st.booleans()), max_size=6
    ),
    text,
    text,
)
def test_any_measurement_survives_a_round_trip_through_parquet(
    measurements: list[Measurement], path: str, reason: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        t = frame.load(
            a_corpus(out, an_observation(measurements=tuple(measurements), path=path, reason=reason))
        )
        files = write(out, plugins.names(FORMATS))
        pd.testing.assert_frame_equal(pd.read_parquet(out / "table.parquet"), t.whole())
        assert len(files) == len(plugins.names(FORMATS))


def test_numbers_are_rounded_for_readers() -> None:
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


def test_a_folder_without_a_corpus_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no corpus; expected a folder .*corpus"):
        write(tmp_path)


def test_an_unknown_format_raises_with_the_allowed_formats(tmp_path: Path) -> None:
    a_corpus(tmp_path)
    with pytest.raises(UsageError, match="unknown format 'pdf'; allowed: csv, html"):
        write(tmp_path, ["pdf"])
    assert not list(tmp_path.glob("*.*"))


def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    a_corpus(tmp_path)
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*summary\.json"):
        write(tmp_path, ["summary"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_while_reports_are_written_is_the_machine_s_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    a_corpus(tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    expected = rf"cannot write .*summary\.json': {os.strerror(number)}; make room"
    with pytest.raises(InfrastructureError, match=expected) as raised:
        write(tmp_path, ["summary"])
    assert raised.value.status == 3
    assert [file.name for file in tmp_path.iterdir()] == ["corpus"]


def test_observations_of_a_newer_version_are_refused_by_name(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path, an_observation(), msgspec.structs.replace(an_observation(1), schema=99))
    with pytest.raises(UsageError, match=r"observations/first\.jsonl, line 2: schema 99"):
        frame.load(corpus)


def test_a_finding_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    a_corpus(tmp_path, findings=(a_finding(schema=99),))
    with pytest.raises(UsageError, match=rf"{a_finding().fingerprint}/finding\.json: .*schema 99"):
        write(tmp_path)


@pytest.mark.long
def test_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    a_corpus(tmp_path, *several_observations(), findings=(a_finding(),))
    files = write(tmp_path, plugins.names(FORMATS))
    assert {file.name for file in tmp_path.iterdir()} == {"corpus", *(file.name for file in files)}
    assert pd.read_csv(io.BytesIO((tmp_path / "table.csv").read_bytes())).shape[0] == 9
