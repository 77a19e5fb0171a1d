"""Findings on a terminal: `difftest show`, findings by a part of their fingerprint, a campaign's end."""

import io
import os
import sys
from pathlib import Path

import click
import pytest
from command_line import command
from msgspec.structs import replace
from sample_findings import HOSTILE_TEXT, a_corpus, a_finding, an_observation, changed

from difftest.commands import show
from difftest.findings.faults import SCRIPTS
from difftest.findings.ledger import Entry
from difftest.ground.errors import UsageError
from difftest.jobs.ask import outputs
from difftest.jobs.ask.finding_path import located
from difftest.jobs.campaign import printed_summary
from difftest.jobs.campaign.storage import opened
from difftest.jobs.campaign.tally import Tally
from difftest.jobs.screen import terminal
from difftest.jobs.screen.terminal import Style
from difftest.judge.outcome import Symptom
from difftest.judge.pieces import Piece
from difftest.records.conclusion import Conclusion
from difftest.records.corpus import SCRIPT
from difftest.records.finding import SCHEMA

DIGEST = "0a1b2c3d"
ISSUE = "https://github.com/pytorch/xla/issues/9735"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two campaigns in `runs`, of which the first holds a finding."""
    monkeypatch.chdir(tmp_path)
    a_corpus(tmp_path / "runs" / "first", an_observation(0), findings=(a_finding(),))
    a_corpus(tmp_path / "runs" / "second", an_observation(0))
    return tmp_path / "runs"


def folder(out: str) -> Path:
    return Path(out) / "corpus" / a_finding().fingerprint


@pytest.mark.parametrize(
    "part", [DIGEST, f"xla_spmd-{DIGEST}", f"xla_spmd-mismatch-{DIGEST}", f"xla_spmd-loss-mismatch-{DIGEST}"]
)
def test_a_finding_is_found_by_the_end_of_its_fingerprint(runs: Path, part: str) -> None:
    assert located(Path(part)) == folder("runs/first")
    assert located(Path("runs/first") / part) == folder("runs/first")
    assert located(Path("runs/first/corpus") / part) == folder("runs/first")
    assert located(runs / "second" / "case.json") == runs / "second" / "case.json", "no part of a fingerprint"


def test_of_several_corpora_the_one_that_changed_last_counts(runs: Path) -> None:
    a_corpus(runs / "second", findings=(a_finding(),))
    os.utime(folder("runs/first") / "finding.json", (1e9, 1e9))
    assert located(Path(DIGEST)) == folder("runs/second")


def test_a_part_of_no_finding_or_of_several_is_refused(runs: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no finding '00000000' in 'corpus', 'runs/first/corpus', 'runs/second"
    ):
        located(Path("00000000"))
    with pytest.raises(UsageError, match="no finding 'torch_ddp-0a1b2c3d'"):
        located(Path(f"torch_ddp-{DIGEST}"))
    a_corpus(runs / "second", findings=(a_finding(fingerprint=f"xla_ddp-loss-mismatch-{DIGEST}"),))
    with pytest.raises(UsageError, match="is of 2 findings: xla_ddp-loss-mismatch-0a1b2c3d, xla_spmd-loss"):
        located(Path(DIGEST))
    assert command("show", "00000000").status == 2


@pytest.mark.parametrize("word", [DIGEST[:7], "zzzzzzzz"])
def test_a_word_that_is_no_id_is_refused_with_what_is_allowed(word: str) -> None:
    done = command("show", word)
    assert done.status == 2
    assert f"no finding or file '{word}'; give the last eight characters" in done.output


def test_triage_takes_the_end_of_a_fingerprint_too(runs: Path) -> None:
    a_corpus(runs / "first", findings=(replace(a_finding(), new_in=("first", 0)),))
    done = command("triage", "runs/first", DIGEST, "--acknowledge")
    assert (done.status, done.output) == (0, f"1 finding is no longer new\n  {a_finding().fingerprint}\n")
    assert command("triage", "runs/first", "00000000", "--acknowledge").status == 2


def test_show_has_the_title_the_evidence_and_the_next_commands(runs: Path) -> None:
    pieces = tuple(
        Piece(rank=rank, part=((rank, rank + 1),), elements=1, wrong=rank, ratio=1.0) for rank in (0, 1)
    )
    evidence = {"single": "agrees", "other": "agrees", "other_single": "no telling"}
    shown = changed(
        a_finding(), tensor="0.bias", evidence=evidence, detail="a\nb", upstream=ISSUE, pieces=pieces
    )
    corpus = a_corpus(runs / "first", findings=(shown,))
    (corpus.root / shown.fingerprint / SCRIPT).write_text("print()")
    done = command("show", DIGEST)
    assert done.status == 0
    lines = done.output.splitlines()
    assert lines[0] == "XLA SPMD: wrong 0"
    assert lines[1] == f"reported: {ISSUE}"
    assert "XLA SPMD        agrees      diverges" in lines
    assert "the torch side  undecided   agrees" in lines
    assert "0.bias is wrong on 1 of 2 ranks" in lines
    assert "  rank 1: 1 of 1 elements of [1:2]" in lines
    assert f"{folder('runs/first')}/reproducer.py" in done.output
    assert f"difftest minimize {folder('runs/first')} " in done.output
    assert not {"difftest file", "difftest draft"} & {" ".join(line.split()[:2]) for line in lines}
    assert f'"schema": {SCHEMA}' in command("show", DIGEST, "--json").output


def test_a_long_or_hostile_message_is_cut_and_harmless(runs: Path) -> None:
    a_corpus(
        runs / "first", findings=(changed(a_finding(), detail="\x1b[2J" + "x\n" * 20, blame=HOSTILE_TEXT),)
    )
    output = command("show", DIGEST).output
    assert "[8 more lines in finding.json]" in output
    assert "\x1b" not in output


class Terminal(io.StringIO):
    """A terminal of 60 columns."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, tally: Tally, upstream: dict[str, Entry]) -> str:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "60")
    printed_summary.print_ending(tally, ["report.html"], upstream, Conclusion())
    return screen.getvalue()


def of_a_campaign() -> tuple[Tally, dict[str, Entry]]:
    """Two unknown findings, one of them seen before, and two known ones of one cause."""
    long = changed(
        a_finding(), symptom=Symptom.EXCEPTION, detail=f"rank 0: ValueError: {'long ' * 30}end", stable=(2, 2)
    )
    names = [f"xla_spmd-loss-mismatch-0000000{number}" for number in range(4)]
    findings = [
        replace(long, fingerprint=names[0]),
        *(a_finding(fingerprint=n) for n in names[1:]),
    ]
    new, before = findings[:2], findings[2:]
    tally = Tally(cases=4, runs=8)
    tally.count_as_new([*new, before[1]])
    tally.recurring = {before[0].fingerprint: before[0]}
    entry = Entry(fingerprint="*", upstream=ISSUE, reason="it is wrong", expires="2999-01-01")  # type: ignore[arg-type]
    return tally, {names[1]: entry, names[3]: entry}


def test_a_campaign_ends_with_what_needs_somebody_and_counts_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed_summary.print_ending(of_a_campaign()[0], ["report.html"], of_a_campaign()[1], Conclusion())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 cases, 8 runs in 0 s: 4 findings with 3 causes, 1 recorded before"
    assert lines[1] == "2 causes need you. 1 is known."
    assert [line.split()[:2] for line in lines[2:4]] == [["exception", "00000000"], ["mismatch", "00000002"]]
    assert lines[2].endswith("end  3 cases"), "a log has whole lines"
    assert lines[3].endswith("3 cases, seen before")
    assert lines[4:] == [
        "  beside them: 1 reported",
        "  difftest show 00000000  has the evidence of the first",
        "  difftest file 00000000  writes an issue draft; nothing is posted",
        "reports: report.html",
    ]


def test_where_all_is_known_the_ending_names_one_that_is_not_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tally, _ = of_a_campaign()
    script = Entry(fingerprint="*", upstream=f"{SCRIPTS}a.py", reason="it", expires="2999-01-01")  # type: ignore[arg-type]
    printed_summary.print_ending(tally, ["report.html"], dict.fromkeys(tally.findings, script), Conclusion())
    lines = capsys.readouterr().out.splitlines()
    assert "  difftest show 00000000  has the evidence of the first that is not reported" in lines


def test_on_a_terminal_lines_fit_and_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    text = on_terminal(monkeypatch, *of_a_campaign())
    assert f"\x1b[{Style.ALARM}mexception" in text
    monkeypatch.setenv(terminal.NO_COLOR, "1")
    lines = on_terminal(monkeypatch, *of_a_campaign()).splitlines()
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines[1:-1])) <= 60
    assert lines[2].endswith(f"{terminal.CUT}  3 cases")


def test_text_of_a_run_cannot_colour_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    terminal.print_line((Style.STRONG, "a\x1b[31mb"))
    assert screen.getvalue() == "\x1b[1ma\\x1b[31mb\x1b[0m\n"


def test_an_id_is_found_in_the_folder_of_a_campaign_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    a_corpus(tmp_path / "second", an_observation(0), findings=(a_finding(),))
    assert command("show", DIGEST).status == 2, "no campaign of this user has written it"
    assert command("show", DIGEST, "--out", "second").status == 0
    assert command("show", "--out", "second", DIGEST).status == 0
    with opened(Path("second")):
        pass
    assert located(Path(DIGEST)) == tmp_path / folder("second")
    assert command("show", DIGEST).status == 0
    outputs.remember(tmp_path / "gone")
    assert command("show", "00000000").status == 2


def test_the_shell_completes_ids_and_files(runs: Path) -> None:
    parameter = next(param for param in show.command.params if param.name == "target")
    context = click.Context(show.command)
    items = parameter.type.shell_complete(context, parameter, DIGEST[:3])
    assert [(item.value, item.help) for item in items] == [(DIGEST, a_finding().fingerprint)]
    assert [item.type for item in parameter.type.shell_complete(context, parameter, "runs/")] == ["file"]
    assert runs.is_dir()
