"""The faults of upstream: each has a script, and the ledger calls it by that or by its issue."""

import re
from pathlib import Path

import msgspec
import pytest
from pages import ROOT

from difftest.commands.service.scripts import ScriptRun
from difftest.findings import faults
from difftest.findings.faults import Fault, fixed_in, read_faults, read_origins
from difftest.findings.ledger import read_ledger
from tools import releases

SCRIPTS = ROOT / faults.SCRIPTS


def a_fault(**changes: object) -> Fault:
    return msgspec.convert(
        {"title": "t", "package": "torch", "kind": "crash", "script": "s.py", **changes}, type=Fault
    )


def test_each_fault_has_a_script_that_takes_its_arguments() -> None:
    for fault in read_faults():
        text = (SCRIPTS / fault.script).read_text()
        for argument in fault.arguments:
            assert re.search(rf'"{argument}"|\bdef {argument}\b', text), (fault.script, argument)


def test_a_fault_of_xla_names_a_script_for_jaxlib_that_takes_its_argument() -> None:
    of_xla = [fault.on_jax for fault in read_faults() if fault.package == "XLA" and fault.on_jax]
    assert len(set(of_xla)) == len(of_xla) > 0
    for script, *arguments in map(str.split, of_xla):
        text = (SCRIPTS / script).read_text()
        assert all(f'"{argument}":' in text for argument in arguments)
    assert not any(fault.on_jax for fault in read_faults() if fault.package != "XLA")


def test_the_newest_jaxlib_decides_for_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    for last, answer in (("fixed", "jaxlib 0.10.2"), ("alive", "")):
        fault = a_fault(releases={"2.9.0": "alive"}, jaxlib={"0.7.1": "alive", "0.10.2": last})
        monkeypatch.setattr(faults, "read_faults", lambda fault=fault: (fault,))
        assert fixed_in("tests/upstream/s.py") == answer


def test_no_two_faults_have_the_same_script_and_arguments() -> None:
    names = [(fault.script, fault.arguments) for fault in read_faults()]
    assert len(set(names)) == len(names)


def test_each_script_that_the_ledger_names_shows_a_fault_of_the_list() -> None:
    upstream = {name for fault in read_faults() for name in fault.upstream}
    named = {entry.upstream for entry in read_ledger().entries if entry.upstream.startswith(faults.SCRIPTS)}
    assert named <= upstream


def test_the_newest_release_decides_whether_a_fault_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    issue = "https://github.com/pytorch/pytorch/issues/1"
    made = (
        a_fault(script="a.py", issue=issue, releases={"2.9.0": "alive", "2.15.0": "fixed"}),
        a_fault(script="b.py", releases={"2.9.0": "fixed", "2.15.0": "alive"}),
        a_fault(script="c.py", arguments=["d", "e"], releases={"2.15.0": "fixed"}),
        a_fault(script="f.py"),
        a_fault(script="g.py", releases={"2.15.0": "unclear"}),
    )
    monkeypatch.setattr(faults, "read_faults", lambda: made)
    for name in ("a.py", "c.py e"):
        assert fixed_in(f"tests/upstream/{name}") == "torch 2.15.0"
    for name in ("b.py", "c.py", "f.py", "g.py", "no_such.py"):
        assert fixed_in(f"tests/upstream/{name}") == ""
    assert fixed_in(issue) == "torch 2.15.0"


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


ANOTHER = "expected a result, actual TypeError: no such thing"
"""What a script prints of a fault that fails in another way than it expects."""

NO_RULE = (
    "expected a result, actual NotImplementedError: 'aten.x does not have a sharding strategy registered.'"
)
"""What it prints where DTensor refuses the operator by now."""


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (ScriptRun(text="", shown=True, output="expected 1, actual 2"), "alive"),
        (ScriptRun(text="", shown=False, absent=True, output="expected 1, actual 1"), "fixed"),
        (ScriptRun(text="", shown=False, output="not there: ['a']\nTraceback ...\nexit code 1"), "fixed"),
        (ScriptRun(text="", shown=False, output="Traceback ...\nTypeError: no such thing\n"), "unclear"),
        (ScriptRun(text="", shown=False, absent=True, output=f"a: {ANOTHER}\nnot there"), "unclear"),
        (ScriptRun(text="", shown=False, absent=True, output=f"a: {NO_RULE}\nnot there"), "fixed"),
    ],
)
def test_what_a_script_says_of_a_release(run: ScriptRun, state: str) -> None:
    before = a_fault(releases={"2.15.0": "unclear", "2.9.0": "alive"}, notes={"2.15.0": "an old note"})
    after = releases.answered(before, "2.15.0", run)
    assert list(after.releases.items()) == [("2.9.0", "alive"), ("2.15.0", state)]
    note = ANOTHER if ANOTHER in run.output else "TypeError: no such thing"
    assert after.notes == ({"2.15.0": note} if state == "unclear" else {})


def test_the_file_of_faults_is_written_as_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(faults.FAULTS_FILE.read_text())
    monkeypatch.setattr(releases, "FAULTS_FILE", file)
    releases.save(list(read_faults()))
    assert file.read_text() == faults.FAULTS_FILE.read_text()
