"""What users see of coverage: the command, the tables of a report, and its numbers for programs."""

import json
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from command_line import command
from sample_coverage import LINES
from sample_findings import a_corpus, an_observation

from difftest.judge.capability import Lack
from difftest.records.columns import Columns
from difftest.records.coverage import Coverage
from difftest.records.covered import Covered
from difftest.records.lacks import SupportTable
from difftest.records.totals import (
    BLOCKS,
    ENTRIES,
    FEATURES,
    KERNELS,
    MODULES,
    NOT_YET,
    OPERATORS,
    RULES,
    Entries,
    Total,
    totals,
    unreached,
)
from reports.covered import COVERAGE, NOT_REACHED, at_a_glance
from reports.tables import Section
from reports.write import write


def reasons(coverage: Coverage, lacks: SupportTable) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(one.what, one.reason): one.names for one in unreached(coverage, lacks)}


def test_what_was_reached_is_counted_beside_what_there_is() -> None:
    coverage = Coverage()
    coverage.add(Columns.of(LINES))
    rows = {total.what: (total.reached, dict(total.by_side)) for total in totals(coverage)}
    assert rows[f"{OPERATORS}, forward"] == (3, {"torch": 3, "xla": 1})
    assert rows[f"{OPERATORS}, backward"] == (1, {"torch": 0, "xla": 1})
    assert rows[f"{ENTRIES}, with sharded operands"] == (1, {"torch": 1, "xla": 0})
    table = Entries({"add": "", "mul": "", "rand": "it draws"}, frozenset({"add"}))
    entries = {total.what: (total.reachable, total.reached) for total in totals(coverage, table)}
    assert entries[f"{ENTRIES}, forward"] == (2, 1)
    assert entries[f"{ENTRIES}, backward"] == (1, 0)
    assert rows[RULES] == (1, {})
    assert rows[KERNELS] == (2, {})  # add forward and mul backward, of the line with lowered nodes


def test_parts_are_counted_by_side_and_on_each_side() -> None:
    coverage, parts = Coverage(), {"features": ("schedule", "evaluation"), "blocks": ("swiglu",)}
    for side, own in (("torch", parts), ("xla", {"features": ("schedule",)}), ("xla", {})):
        coverage.add(Columns.of([an_observation(side=side, covered=Covered(parts=own))]))
    there = {FEATURES: frozenset({"schedule", "evaluation", "frozen"})}
    rows = {total.what: total for total in totals(coverage, Entries(parts=there))}
    assert rows[FEATURES] == Total(FEATURES, 3, 2, {"torch": 2, "xla": 1}, 1)
    assert rows[BLOCKS] == Total(BLOCKS, None, 1, {"torch": 1, "xla": 0}, 0)
    missing = [one.names for one in unreached(coverage, SupportTable(), Entries(parts=there))]
    assert ("frozen",) in missing


def test_what_was_not_reached_has_a_reason() -> None:
    coverage, lacks = Coverage(), SupportTable()
    coverage.add(Columns.of([msgspec.structs.replace(LINES[0], backend="torch_dtensor")]))
    lack = Lack(operator="prod", reason="no sharding strategy", overload="cumsum.default")
    other = Lack(operator="mm", reason="no")
    refused = [
        an_observation(backend="torch_dtensor", verdict="unsupported", lacks=(lack,)),
        an_observation(backend="xla_spmd", verdict="unsupported", lacks=(other,)),
    ]
    lacks.add(Columns.of(refused))
    names = reasons(coverage, lacks)
    assert "cumsum" in names[RULES, "refused by torch_dtensor"]
    assert "prod" in names[RULES, "torch_dtensor refused its programs"]
    assert "mm" in names[RULES, NOT_YET], "a backend without rules says nothing about them"
    assert "_conj" in names[RULES, "it takes complex numbers"]
    assert "mm" in names[OPERATORS, "xla_spmd refused its programs"]
    assert "bmm" in names[OPERATORS, NOT_YET]
    assert (
        "linear"
        in names[
            OPERATORS,
            "torch replaces it by other operators before it is dispatched, except in inference mode",
        ]
    )
    assert "uniform_" in names[RULES, "it draws random numbers"]
    table = Entries({"add": "", "mul": "", "rand": "it draws"}, frozenset({"add"}))
    entries = [one for one in unreached(coverage, lacks, table) if one.what == ENTRIES]
    assert [(entry.reason, entry.names) for entry in entries] == [
        ("it draws", ("rand",)),
        (NOT_YET, ("mul",)),
    ]
    drawn = Entries({"aten.uniform_": ""})
    assert not any(
        "uniform_" in one.names for one in unreached(coverage, lacks, drawn) if "random" in one.reason
    )
    assert not any("add" in own for (what, _), own in names.items() if what in {OPERATORS, RULES})


def test_every_operator_that_was_not_reached_is_named_once() -> None:
    for what in (OPERATORS, RULES, KERNELS):
        names = [
            n for (kind, _), own in reasons(Coverage(), SupportTable()).items() if kind == what for n in own
        ]
        assert len(names) == len(set(names))
        assert len(names) == {OPERATORS: 1572, RULES: 349, KERNELS: 422}[what]


def test_the_command_prints_what_was_reached_and_what_was_not(tmp_path: Path) -> None:
    a_corpus(tmp_path, *LINES)
    status, output = command("coverage", tmp_path)
    assert status == 0
    assert "torch float32: 1 whole, 2 even, 0 uneven, 0 empty; 0 backward; regimes normal" in output
    assert "xla bfloat16: 0 whole, 0 even, 1 uneven, 0 empty; 1 backward; regimes ties" in output
    assert "operators with a rule of DTensor" in output
    assert NOT_YET in output
    assert "\nnot reached of operators with a rule of DTensor: 348\n" in output
    assert output.count("\n") < 70


def test_the_command_gives_every_cell_as_json(tmp_path: Path) -> None:
    a_corpus(tmp_path, *LINES)
    held = json.loads(command("coverage", tmp_path, "--json").output)
    assert {
        "operator": "add",
        "evenness": "even",
        "dtype": "float32",
        "regime": "normal",
        "side": "torch",
        "comparisons": 1,
    } in held["cells"]["forward"]
    assert held["rules"] == {"add S0>S0": 1}
    assert held["lowered"] == {"aten::add": 1}
    assert {"what", "reason", "names"} == held["unreached"][0].keys()


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    assert command("coverage", tmp_path).status == 2


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("covered")
    a_corpus(out, *LINES)
    write(out)
    return out


def test_the_page_and_the_summary_show_what_was_reached_and_what_was_not(reported: Path) -> None:
    for text in ((reported / "report.html").read_text(), (reported / "summary.md").read_text()):
        for title in ("Coverage", "Coverage by side and dtype", "Coverage by campaign", "Not reached"):
            assert title in text
        assert NOT_YET in text


@pytest.mark.long
def test_a_report_tells_modules_from_operators_where_it_has_the_entries(tmp_path: Path) -> None:
    """Both are entries of one table: without it there is no row of modules, with it each has its own."""
    covered = Covered(forward={"whole": ("add",)}, entries={"even": ("add", "nn.Linear")})
    a_corpus(tmp_path, an_observation(0, side="torch", covered=covered))
    held = {"add": "", "mul": "", "nn.Linear": "", "nn.Tanh": "", "nn.GELU": "", "rand": "it draws"}
    entries = Entries(held, modules=frozenset({"nn.Linear", "nn.Tanh", "nn.GELU"}))
    for given, modules in ((Entries(), None), (entries, (3, 1))):
        write(tmp_path, entries=given)
        summary = json.loads((tmp_path / "summary.json").read_text())
        rows = {row["what"]: (row["there are"], row["reached"]) for row in summary["coverage"]}
        assert rows.get(f"{MODULES}, with sharded operands") == modules
        assert rows[f"{ENTRIES}, with sharded operands"] == ((2, 1) if modules else (None, 2))
        page = (tmp_path / "report.html").read_text()
        assert ("s modules, forward</td>" in page) == bool(modules)
    assert ">nn.GELU, nn.Tanh</td>" in page
    assert page.count(">it draws</td>") == 2, "at a glance and among all numbers"


def test_reasons_beyond_the_main_ones_are_one_row_at_a_glance() -> None:
    """The page has a table to look at and another to look things up in."""
    rows = [("operators", f"reason {n}", 9 - n, "a, b") for n in range(6)] + [("parts", "why", 2, "c")] * 5
    table = pd.DataFrame(rows, columns=["what", "reason", "number", "names"])
    (shown,) = at_a_glance([Section("Coverage by campaign", "", table), Section(NOT_REACHED, "", table)])
    assert shown.table.to_numpy().tolist() == [
        *(["operators", f"reason {n}", 9 - n] for n in range(4)),
        ["operators", "2 other reasons", 9],
        *([["parts", "why", 2]] * 5),
    ]


def test_the_numbers_for_programs_have_the_totals(reported: Path) -> None:
    summary = json.loads((reported / "summary.json").read_text())
    row = next(one for one in summary["coverage"] if one["what"] == f"{OPERATORS}, forward")
    assert (row["reached"], row["torch"], row["xla"]) == (3, 3, 1)


def test_the_long_table_says_what_each_run_covered(reported: Path) -> None:
    t = pd.read_parquet(reported / "table.parquet")
    assert json.loads(t["covered_forward"].iloc[0]) == {"even": ["add", "mul"], "whole": ["neg"]}
    assert t["covered_forward"].iloc[2] is None or pd.isna(t["covered_forward"].iloc[2])


def test_a_report_of_an_earlier_versions_lines_has_no_coverage(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(covered=Covered()))
    write(tmp_path)
    assert "recorded no coverage" in (tmp_path / "report.html").read_text()
    assert "Coverage" not in (tmp_path / "summary.md").read_text()


def test_at_a_glance_what_was_not_reached_at_all_is_one_line() -> None:
    table = pd.DataFrame({"what": ["a", "b", "c"], "reached": [3, 0, 0]})
    (shown,) = at_a_glance([Section(COVERAGE, "It counts.", table)])
    assert list(shown.table["what"]) == ["a"]
    assert shown.note == "It counts. Not reached at all: b; c."
