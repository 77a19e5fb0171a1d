"""The faults of upstream: each is two files, a script that stands alone and what difftest knows of it."""

import ast
import re
import shutil
import tomllib
from pathlib import Path

import msgspec
import pytest

from difftest.findings import faults
from difftest.findings.faults import (
    KNOWN,
    KnownFault,
    KnownScript,
    fixed_in,
    known,
    raises_of,
    read_faults,
    read_origins,
)
from difftest.findings.flips import GSPMD
from difftest.findings.ledger import entries, read_ledger
from difftest.ground.errors import UsageError
from difftest.jobs.filing.script_runs import ScriptRun, run_script
from difftest.jobs.watch.script_states import partitioners, state_of
from difftest.records import former_details
from difftest.records.finding import State
from difftest.records.former_details import FORMER, current_name
from difftest.records.script_ending import ScriptEnding
from tools import releases

SCRIPTS = sorted(KNOWN.glob("*.py"))
MOST_LINES = 60
"""A draft shows a script on its first screen."""

OURS = ("difftest", "generators", "workers", "reports")


def a_fault(name: str = "s", **changes: object) -> KnownFault:
    return msgspec.convert(
        {"name": name, "title": "t", "package": "torch", "kind": "crash", **changes}, type=KnownFault
    )


def test_each_script_belongs_to_a_fault_and_stands_alone() -> None:
    named = {fault.script for fault in read_faults()} | {fault.on_jax for fault in read_faults()}
    assert set(SCRIPTS) == named - {None}
    for script in SCRIPTS:
        text = script.read_text()
        assert text.count("\n") <= MOST_LINES, script.name
        assert not any(f"import {name}" in text or f"from {name}" in text for name in OURS), script.name


def test_each_script_says_what_is_wrong_and_takes_no_arguments() -> None:
    for script in SCRIPTS:
        tree = ast.parse(script.read_text())
        assert ast.get_docstring(tree), script.name
        assert "argv" not in script.read_text(), script.name


def test_a_fault_without_a_script_is_an_issue_of_upstreams() -> None:
    bare = [fault for fault in known() if not fault.script.is_file()]
    assert bare
    assert all(fault.issue and fault.shows for fault in bare)


def test_only_a_fault_of_xla_has_a_script_for_jaxlib() -> None:
    of_jax = [fault for fault in read_faults() if fault.on_jax]
    assert of_jax
    assert {fault.package for fault in of_jax} == {"XLA"}


def test_the_list_says_of_each_fault_of_xla_whether_the_newest_jaxlib_has_it() -> None:
    newest = faults.NEWEST["jaxlib"]
    of_xla = [fault for fault in read_faults() if fault.package == "XLA"]
    assert [fault.name for fault in of_xla if fault.jaxlib.get(newest) not in {"alive", "fixed"}] == []
    for fault in of_xla:
        script = fault.shown_on_jax_by
        assert script, fault.name
        assert (newest in fault.gspmd) == (GSPMD in partitioners(script)), fault.name


def test_a_title_names_its_component_once() -> None:
    for fault in known():
        component = fault.title.removesuffix(fault.what).removesuffix(": ")
        words = re.sub("`[^`]*`", "", fault.what)
        assert not component or component not in words, fault.title


def test_a_script_shows_its_fault_in_one_way() -> None:
    """By its status, by an exception that its file names, or by a crash that its docstring names."""
    for fault in read_faults():
        text = fault.script.read_text()
        ways = re.search(r"\b_?exit\((?!\"needs a GPU)", text), fault.raises, ScriptEnding.of(text)
        assert sum(map(bool, ways)) == 1, fault.name
        assert all(fault.raises), fault.name


@pytest.mark.parametrize(
    ("text", "shown", "absent"),
    [
        ("raise ValueError('it is odd')", True, False),
        ("raise ValueError('something else')", False, False),
        ("import os; print('it is odd', flush=True); os.abort()", False, False),
        ("print('it is odd')", False, True),
    ],
)
def test_an_exception_shows_a_fault_by_what_it_says(text: str, *, shown: bool, absent: bool) -> None:
    run = run_script(text, raises=("it is odd", "it is even"))
    assert (run.shown, run.absent) == (shown, absent)


def test_the_text_of_a_known_script_says_by_which_exceptions_it_shows_its_fault() -> None:
    fault = next(fault for fault in read_faults() if fault.raises)
    assert raises_of(fault.shown_by.text) == fault.raises
    assert raises_of("raise SystemExit(0)\n") == ()


def test_the_newest_jaxlib_decides_for_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    for last, answer in (("fixed", "jaxlib 0.10.2"), ("alive", "")):
        fault = a_fault(releases={"2.9.0": "alive"}, jaxlib={"0.7.1": "alive", "0.10.2": last})
        monkeypatch.setattr(faults, "read_faults", lambda fault=fault: (fault,))
        assert fixed_in(f"{faults.SCRIPTS}s.py") == answer


def test_the_newest_release_decides_whether_a_fault_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    issue = "https://github.com/pytorch/pytorch/issues/1"
    made = (
        a_fault("a", issue=issue, releases={"2.9.0": "alive", "2.15.0": "fixed"}),
        a_fault("b", releases={"2.9.0": "fixed", "2.15.0": "alive"}),
        a_fault("c", releases={"2.15.0": "fixed"}),
        a_fault("f"),
        a_fault("g", releases={"2.15.0": "unclear"}),
    )
    monkeypatch.setattr(faults, "read_faults", lambda: made)
    for name in ("a", "c"):
        assert fixed_in(f"{faults.SCRIPTS}{name}.py") == "torch 2.15.0"
    for name in ("b", "f", "g", "no_such"):
        assert fixed_in(f"{faults.SCRIPTS}{name}.py") == ""
    assert fixed_in(issue) == "torch 2.15.0"


def test_names_of_earlier_versions_lead_to_faults_that_there_are() -> None:
    names = {fault.known_as for fault in known()}
    for old, now in (
        ("usual_forms_on_dtensor.py mse_loss", "mse_loss_on_dtensor.py"),
        ("mean_over_uneven_shards.py", "mean_over_uneven_shards.py"),
    ):
        assert current_name(FORMER + old) == faults.SCRIPTS + now
    assert set(former_details.names().values()) <= names
    assert current_name(f"{FORMER}none.py") == f"{FORMER}none.py"
    assert current_name("https://github.com/pytorch/xla/issues/1").endswith("/1")


AT = re.compile(r"((index|case) \d+(, \d+(\.\d)? minutes)?)?")
"""Where it showed: `index 94, 1.3 minutes`, `case 15`, or nothing."""


def test_each_fault_has_an_origin_of_the_list_in_a_form_that_fits_a_table() -> None:
    names = {origin.name for origin in read_origins()}
    for fault in read_faults():
        assert fault.origin, fault.title
        assert fault.origin.keys() <= names, fault.title
        assert all(AT.fullmatch(at) for at in fault.origin.values()), fault.title


def test_nothing_else_showed_a_fault_of_which_that_is_not_recorded() -> None:
    unrecorded = [fault for fault in read_faults() if "not recorded" in fault.origin]
    assert unrecorded
    assert all(list(fault.origin) == ["not recorded"] for fault in unrecorded)


def test_each_origin_showed_a_fault_and_has_a_name_of_its_own() -> None:
    names = [origin.name for origin in read_origins()]
    assert len(set(names)) == len(names)
    assert {name for fault in read_faults() for name in fault.origin} == {*names}


def test_the_record_of_an_origin_is_a_short_commit() -> None:
    for origin in read_origins():
        assert not origin.record or re.fullmatch("[0-9a-f]{7}", origin.record), origin.name


def test_a_file_of_a_fault_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    for text, message in (("title = ", "Invalid value"), ('title = "t"', "missing required field")):
        file.write_text(text)
        with pytest.raises(UsageError, match=f"{file}: .*{message}"):
            known(tmp_path)


def test_what_all_patterns_of_a_fault_share_is_written_once() -> None:
    shown = {"fingerprint": "xla_spmd-*", "what": {"message": "*odd*"}}
    fault = a_fault(reason="it is odd", expires="2027-01-01", shows=[shown, {**shown, "reason": "it is"}])
    assert [entry.reason for entry in entries(fault)] == ["it is odd", "it is"]
    assert {entry.upstream for entry in entries(fault)} == {f"{faults.SCRIPTS}s.py"}
    untitled = a_fault(title="SPMD: `x` is odd", expires="2027-01-01", shows=[shown])
    assert entries(untitled)[0].reason == "`x` is odd"
    with pytest.raises(UsageError, match=r"s\.toml: Object missing required field `expires`"):
        entries(a_fault(shows=[shown]))


def test_an_entry_of_a_greater_priority_comes_first_and_then_the_more_specific(tmp_path: Path) -> None:
    usual = 'title = "t"\npackage = "torch"\nkind = "crash"\nexpires = 2027-01-01\n'
    what, first = 'what.message = "*x*"\n', "priority = 1\n"
    for name, more, asks in (("a", "", ""), ("b", "", what), ("c", first, "")):
        text = f'{usual}{more}\n[[shows]]\nfingerprint = "{name}-*"\n{asks}'
        (tmp_path / f"{name}.toml").write_text(text)
    assert [entry.fingerprint for entry in read_ledger(tmp_path).entries] == ["c-*", "b-*", "a-*"]


ANOTHER = "expected a result, actual TypeError: no such thing"
"""What a script prints of a fault that fails in another way than it expects."""

NO_RULE = "NotImplementedError: 'aten.x does not have a sharding strategy registered.'"
"""How a script ends where DTensor refuses the operator by now."""


OF_RANK = "Traceback ...\ntorch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with"
"""How the parent of a rank ends that has left with a status."""


def test_a_rank_that_leaves_with_status_1_says_that_the_fault_is_not_there() -> None:
    for status, raises, state in ((1, (), "fixed"), (3, (), "unclear"), (1, ("it is odd",), "unclear")):
        run = ScriptRun(text="", shown=False, output=f"expected 1\n{OF_RANK} exit code {status}\n")
        result = state_of(run, KnownScript(text="", raises=raises))
        assert result
        assert result.state == state


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (ScriptRun(text="", shown=True, output="expected 1, actual 2"), "alive"),
        (ScriptRun(text="", shown=False, absent=True, output="expected 1, actual 1"), "fixed"),
        (ScriptRun(text="", shown=False, output="not there: ['a']\nTraceback ...\nexit code 1"), "fixed"),
        (ScriptRun(text="", shown=False, output="Traceback ...\nTypeError: no such thing\n"), "unclear"),
        (ScriptRun(text="", shown=False, output=f"Traceback ...\n{NO_RULE}\n"), "fixed"),
    ],
)
def test_what_a_script_says_of_a_release(run: ScriptRun, state: State) -> None:
    tried = {"2.15.0": "unclear", "2.9.0": "alive"}
    before = a_fault(releases=tried, notes={"2.15.0": "an old note"})
    after = releases.answered(before, "2.15.0", state_of(run, KnownScript(text="", raises=("it is odd",))))
    assert list(after.releases.items()) == [("2.9.0", "alive"), ("2.15.0", state)]
    assert after.notes == ({"2.15.0": "TypeError: no such thing"} if state == "unclear" else {})


def test_an_operator_without_a_rule_says_nothing_of_wrong_numbers() -> None:
    run = ScriptRun(text="", shown=False, output=f"Traceback ...\n{NO_RULE}\n")
    result = state_of(run, KnownScript(text=""))
    assert releases.answered(a_fault(), "2.9.0", result).releases == {"2.9.0": "unclear"}


def test_the_file_of_a_fault_keeps_what_a_release_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "KNOWN", tmp_path)
    fault = next(one for one in read_faults() if one.notes)
    file = Path(shutil.copy(KNOWN / f"{fault.name}.toml", tmp_path))
    before = file.read_text()
    releases.save(fault)
    assert file.read_text() == before
    releases.save(msgspec.structs.replace(fault, releases={"9.9": "fixed"}, notes={}))
    read = tomllib.loads(file.read_text())
    assert read["releases"] == {"9.9": "fixed"}
    assert "notes" not in read
    assert read["shows"] == tomllib.loads(before)["shows"]
