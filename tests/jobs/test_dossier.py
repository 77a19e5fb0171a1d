"""Drafts of all listed faults: what each holds, and that every fault can have one."""

import dataclasses
import re

import pytest
from installed_packages import needs
from msgspec.structs import replace

from difftest.findings.faults import KnownFault, KnownScript, read_faults
from difftest.jobs.filing.script_runs import ScriptRun, compiled_hlo
from reports.draft import readable
from reports.draft.draft import MOST_TITLE
from tools import dossier, fault_draft

FAULT = KnownFault(
    name="cached_celu_on_xla",
    title="`celu` keeps its first `alpha`",
    package="torch_xla",
    kind="wrong numbers",
    releases={"2.8.0": "fixed", "2.9.0": "alive"},
)
OUTPUT = "a warning\ncelu: expected 1, actual 2\n"
SHOWN = fault_draft.Shown(
    script=KnownScript(text='print("expected 1, actual 2")\n'),
    output=OUTPUT,
    versions={"torch": "2.9.0", "torch_xla": "2.9.0"},
)


def test_a_draft_has_sentences_script_answers_and_releases_in_the_form_of_the_tracker() -> None:
    text = fault_draft.draft(FAULT, SHOWN)
    assert text.startswith("# `celu` keeps its first `alpha`\n\n## 🐛 Bug\n\n")
    assert (
        "With torch 2.9.0 and torch_xla 2.9.0, `celu` keeps its first `alpha`. Nothing fails: a training run "
        "goes on with wrong numbers. Expected 1, got 2."
    ) in text
    assert '```python\nprint("expected 1, actual 2")\n```\n\n`python script.py` prints' in text
    assert "## Expected behavior\n\nWhat the same call gives on the CPU without XLA." in text
    assert "```text\ncelu: expected 1, actual 2\n```" in text
    assert "a warning" not in text
    assert "* Tried with torch_xla 2.8.0 fixed, 2.9.0 alive\n" in text
    headings = re.findall("^## .*", text, re.MULTILINE)
    assert headings[1:] == [
        "## To Reproduce",
        "## Expected behavior",
        "## Environment",
    ]


def test_a_draft_for_torch_has_the_form_of_torch_and_says_that_it_is_about_dtensor() -> None:
    fault = replace(
        FAULT,
        name="index_put_backward_on_dtensor",
        package="torch",
        title="DTensor: `stack` fails",
        kind="exception",
        releases={},
    )
    text = fault_draft.draft(fault, replace_versions({"torch": "2.15.0"}))
    assert text.startswith("# DTensor: `stack` fails\n\n### 🐛 Describe the bug\n\n")
    assert "With torch 2.15.0 on DTensors, `stack` fails. Training stops with an exception." in text
    assert text.index("### Versions") < text.index("* torch 2.15.0")
    named = replace(fault, title="`stack` of DTensors fails")
    assert fault_draft.draft(named, SHOWN).startswith("# `stack` of DTensors fails\n")


def shown_as(output: str) -> fault_draft.Shown:
    """A run of the script that printed something else."""
    return dataclasses.replace(SHOWN, output=output)


def replace_versions(versions: dict[str, str]) -> fault_draft.Shown:
    """A run of the script with other packages."""
    return fault_draft.Shown(script=SHOWN.script, output=OUTPUT, versions=versions)


def test_what_a_fault_of_the_list_says_is_expected_comes_before_what_its_kind_says() -> None:
    text = fault_draft.draft(replace(FAULT, kind="on the host", expected="that it does nothing"), SHOWN)
    silent = fault_draft.draft(replace(FAULT, expected="that it does nothing"), shown_as("nothing is said"))
    assert "Expected that it does nothing." in silent
    assert "## Expected behavior\n\nThat it does nothing." in text


def test_a_draft_of_a_reported_or_fixed_fault_begins_with_that() -> None:
    reported = fault_draft.draft(replace(FAULT, issue="https://example.org/1"), SHOWN)
    assert reported.startswith("> Reported already: https://example.org/1. ")
    fixed = next(fault for fault in read_faults() if fault.releases.get("2.15.0") == "fixed")
    assert "> Fixed in torch 2.15.0, the newest release. Do not post this." in fault_draft.draft(fixed, SHOWN)


def test_a_draft_says_where_the_newest_release_was_not_tried() -> None:
    fault = replace(FAULT, package="torch", releases={"2.9.0": "alive"})
    assert "Tried with torch 2.9.0 alive; not yet in 2.15.0, the newest" in fault_draft.draft(fault, SHOWN)


def test_of_a_script_that_expects_nothing_the_last_lines_are_the_answer() -> None:
    assert readable.output("\n".join(map(str, range(8)))) == "2\n3\n4\n5\n6\n7"


def test_a_draft_for_xla_has_the_hlo_of_what_was_compiled() -> None:
    shown = dataclasses.replace(
        SHOWN, hlo="HloModule jit_tanh\n", versions={"jax": "0.10.2", "jaxlib": "0.10.2"}
    )
    text = fault_draft.draft(replace(FAULT, package="XLA"), shown)
    assert "### HLO\n\n" in text
    assert "```text\nHloModule jit_tanh\n```" in text
    assert "HLO" not in fault_draft.draft(replace(FAULT, package="XLA"), SHOWN)


@pytest.mark.slow
def test_the_hlo_is_what_a_script_on_jax_compiles_last_without_its_places() -> None:
    needs("jax", reason="needs jax: pip install 'difftest[flash]'")
    text = "import jax\njax.jit(lambda x: x + 1)(1.0)\njax.jit(jax.numpy.tanh)(1.0)\nraise SystemExit(1)\n"
    hlo = compiled_hlo(text)
    assert hlo.startswith("HloModule jit_tanh")
    assert "= f32[] tanh(" in hlo
    assert not [word for word in ("metadata=", "reproducer.py", "\n\n\n") if word in hlo]
    assert not compiled_hlo("")


def test_what_every_rank_prints_is_there_once() -> None:
    assert readable.output("expected 1, actual 2\nexpected 1, actual 2\n") == "expected 1, actual 2"


@pytest.mark.parametrize("output", [OUTPUT, " \n"])
def test_a_script_that_prints_nothing_shows_nothing(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    run = ScriptRun(text="", shown=True, output=output)
    monkeypatch.setattr(dossier, "run_script", lambda *_args, **_options: run)
    monkeypatch.setattr(dossier, "version", lambda *_: "2.9.0")
    shown = dossier.ran([(SHOWN.script, ("torch", "torch_xla"))], "python")
    assert (shown.output if shown else "") == output.strip(" \n") + "\n" * bool(shown)


@pytest.mark.parametrize(
    ("installed", "used"),
    [
        ({"jaxlib"}, ["jaxlib"]),
        ({"jaxlib", "torch_xla"}, ["jaxlib", "torch_xla"]),
        ({"torch_xla"}, ["torch_xla"]),
        (set(), []),
    ],
)
def test_a_fault_of_xla_needs_jaxlib_or_torch_xla(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], used: list[str]
) -> None:
    monkeypatch.setattr(dossier, "version", lambda _, name: "1.0" if name in installed else "")
    fault = next(fault for fault in read_faults() if fault.on_jax)
    assert [packages[-1] for _, packages in dossier.runnable(fault, "python")] == used


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wrong shape", "Nothing"),
        ("crash, wrong numbers", "Sometimes"),
        ("crash", "The process"),
        ("hang", "Training stops without"),
        ("not supported", "Training stops with an"),
        ("no error", "Nothing"),
    ],
)
def test_the_kind_of_a_fault_says_what_it_means_for_training(kind: str, words: str) -> None:
    assert fault_draft.impact(KnownFault(name="", title="", package="XLA", kind=kind)).startswith(words)


@pytest.mark.long
def test_every_fault_has_a_script_and_some_have_one_for_jaxlib() -> None:
    faults = read_faults()
    assert all(fault.shown_by.text for fault in faults)
    assert any(fault.shown_on_jax_by for fault in faults)


WORDS_OF_OURS = (
    "meets",
    "whole number",
    "without dims",
    "without elements",
    "ends the process",
    "oracle",
    "floors",
)
"""Words that a tracker would not use."""


@pytest.mark.long
def test_every_title_is_one_sentence_in_words_of_the_tracker() -> None:
    for fault in read_faults():
        title = fault_draft.title(fault)
        assert len(title) <= MOST_TITLE
        assert not title.endswith(".")
        assert title.count("`") % 2 == 0, title
        assert not [word for word in WORDS_OF_OURS if word in title], title
