"""Drafts of all listed faults: what each holds, and that every fault can have one."""

import pytest

from difftest.commands.service.known_script import KnownScript, script_of
from difftest.findings.faults import Fault, read_faults
from tools import dossier

FAULT = Fault(
    title="`celu` keeps its first `alpha`",
    package="torch_xla",
    kind="wrong numbers",
    script="celu.py",
    issue="https://example.org/1",
    releases={"2.8.0": "fixed", "2.9.0": "alive"},
)
SCRIPT = KnownScript(text='print("expected 1, actual 2")\n', arguments=("celu",))
OUTPUT = "a warning\ncelu: expected 1, actual 2\n"


def test_a_draft_has_title_severity_answers_script_and_releases() -> None:
    text = dossier.draft(FAULT, "2.9.0", SCRIPT, OUTPUT)
    assert text.startswith("# `celu` keeps its first `alpha`\n\nFor pytorch/xla. Silent: ")
    assert "```\ncelu: expected 1, actual 2\n```" in text
    assert "a warning" not in text
    assert '```python\nprint("expected 1, actual 2")\n```\n\nRun it with `celu`.' in text
    assert "torch_xla 2.9.0, Python 3." in text
    assert "Tried: 2.8.0 fixed, 2.9.0 alive." in text
    assert text.endswith("Reported: https://example.org/1\n")


def test_of_a_script_that_expects_nothing_the_last_lines_are_the_answer() -> None:
    assert dossier.answers("\n".join(map(str, range(8)))) == ["3", "4", "5", "6", "7"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [("wrong shape", "Silent"), ("crash, wrong numbers", "Silent"), ("crash", "The process"), ("hang", "Tr")],
)
def test_the_worst_of_a_faults_kinds_is_its_severity(kind: str, words: str) -> None:
    assert dossier.severity(Fault(title="", package="XLA", kind=kind, script="")).startswith(words)


def test_every_fault_has_a_file_of_its_own_a_tracker_and_a_script() -> None:
    faults = read_faults()
    assert len({dossier.file_name(fault) for fault in faults}) == len(faults)
    assert {fault.package for fault in faults} <= dossier.TRACKERS.keys()
    assert all(script_of(fault, fault.arguments).text for fault in faults)
