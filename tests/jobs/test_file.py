"""`difftest file`: the stages from a finding to its draft, on a fake machine."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import command
from machines import Machine, a_campaign, examined, sharded, the_finding
from sentences import replaced

from difftest.campaign.campaign import Campaign
from difftest.findings.faults import SCRIPTS, known_script, read_faults
from difftest.findings.ledger import Ledger
from difftest.ground import made_environments
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing import accusation, chain, draft, recompilation
from difftest.jobs.filing.accusation import Accusation, AccusedProgram
from difftest.jobs.filing.chain import DraftChain, HaltError, own_alone
from difftest.jobs.filing.draft import Issue
from difftest.jobs.filing.filing import Filing
from difftest.jobs.filing.reproduction import Reproduction
from difftest.jobs.filing.script_runs import ScriptRun
from difftest.judge.outcome import Symptom
from difftest.passes.guilty import Verdict
from difftest.passes.snapshots import Snapshot
from difftest.records.corpus import (
    AFTER_PASS,
    ARTIFACTS,
    BEFORE_PASS,
    DRAFT,
    FINDING,
    OUTPUT,
    REDUCED,
    SCRIPT,
)
from difftest.records.evidence import GUILTY_PASS
from difftest.records.former_details import FORMER
from reports.draft import readable
from workers.backends import candidates

BACKEND = "torch_dtensor"
SHOWN = Reproduction(reason=None, script=ScriptRun(text="import torch\n", shown=True, output="shown\n"))
ALIVE = "difftest/findings/known/tie_broken_by_parallelize_module.py"


class Desk:
    """A finding, and a chain for it that keeps what it says and how often it needed a machine."""

    def __init__(self, root: Path) -> None:
        backends = candidates((BACKEND, "torch_ddp"))
        self.machine = Machine(**{BACKEND: sharded})
        self.campaign = a_campaign(root / "corpus", self.machine, dict(backends))  # type: ignore[arg-type]
        examined(self.campaign)
        self.folder = self.campaign.corpus.root / the_finding(self.campaign).fingerprint
        self.lines: list[str] = []
        self.opened = 0

    @contextmanager
    def opens(self, _subject: FindingTarget) -> Iterator[Campaign]:
        """The machine, as a chain opens it."""
        self.opened += 1
        yield self.campaign

    def advance(self, budget: int = 40, most_a_day: int = 5, tracker: str | None = None) -> Issue:
        """One chain for the finding."""
        say = self.lines.append
        made = DraftChain(
            machine=self.opens,
            say=say,
            budget=budget,
            ledger=Ledger(),
            tracker=tracker,
            most_a_day=most_a_day,
            consent=own_alone,
        )
        return made.advance(self.folder)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(draft, "collect_env", lambda _python: "")
    monkeypatch.setattr(chain, "reproduce", lambda *_: SHOWN)
    return Desk(tmp_path)


def stages(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(line.partition(":")[0] for line in lines))


def test_a_new_finding_goes_through_all_stages_and_a_second_time_through_none(desk: Desk) -> None:
    issue = desk.advance()
    assert issue.reason is None
    assert stages(desk.lines) == ["minimize", "ablate", "reproducer"]
    assert {REDUCED, SCRIPT, OUTPUT, DRAFT} <= {file.name for file in desk.folder.iterdir()}
    assert desk.campaign.corpus.finding(desk.folder.name).ablations
    runs = sum(desk.machine.requests.values())
    desk.lines.clear()
    assert desk.advance().reason is None
    assert (desk.lines, desk.opened) == (["reproducer: done before"], 1)
    assert sum(desk.machine.requests.values()) == runs


def test_a_lost_script_is_made_again_without_another_reduction(desk: Desk) -> None:
    desk.advance()
    (desk.folder / SCRIPT).unlink()
    desk.lines.clear()
    desk.advance()
    assert desk.lines[0] == "minimize, ablate: done before"
    assert (desk.folder / SCRIPT).is_file()
    assert desk.opened == 1


def test_a_reduction_that_its_budget_ended_goes_on_the_next_time(desk: Desk) -> None:
    desk.advance(budget=2)
    assert any("the budget ended it" in line for line in desk.lines)
    (desk.folder / SCRIPT).unlink()
    desk.lines.clear()
    desk.advance()
    assert stages(desk.lines) == ["minimize", "ablate", "reproducer"]


def test_the_chain_stops_where_nothing_shows_the_fault_any_more(desk: Desk) -> None:
    desk.machine.wrong = {}
    with pytest.raises(
        HaltError, match=r"minimize: case \w+ does not show the finding now; `difftest triage"
    ):
        desk.advance()
    assert not (desk.folder / DRAFT).exists()


def test_without_a_script_there_is_no_draft(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ScriptRun(text="pass\n", shown=False, output="not reproduced\n")
    monkeypatch.setattr(chain, "reproduce", lambda *_: Reproduction(reason="it shows nothing", script=failed))
    with pytest.raises(HaltError, match=r"reproducer: it shows nothing; `difftest replay .*` .*\nnot repro"):
        desk.advance()
    assert not {SCRIPT, DRAFT} & {file.name for file in desk.folder.iterdir()}
    done = command("draft", desk.folder)
    assert done.status == 1
    assert (
        f"no script shows it yet, and maintainers ask for one; `difftest file {desk.folder}`" in done.output
    )


def test_the_limit_of_a_day_is_reached_before_anything_is_run(desk: Desk) -> None:
    runs = sum(desk.machine.requests.values())
    other = desk.folder.parent / "other"
    other.mkdir()
    (other / DRAFT).write_text("drafted today")
    with pytest.raises(HaltError, match=r"no draft: 1 finding of this corpus was drafted today"):
        desk.advance(most_a_day=1)
    assert (sum(desk.machine.requests.values()), desk.opened) == (runs, 0)


def test_a_reported_finding_stops_before_anything_is_run(desk: Desk) -> None:
    runs = sum(desk.machine.requests.values())
    desk.campaign.corpus.amend(desk.folder.name, upstream="https://github.com/pytorch/xla/issues/1")
    done = command("file", desk.folder)
    assert (done.status, sum(desk.machine.requests.values())) == (1, runs)
    assert "no draft: it is reported already: https://github.com/pytorch/xla/issues/1" in done.output


def test_an_unknown_tracker_is_refused_before_anything_is_run(desk: Desk) -> None:
    runs = sum(desk.machine.requests.values())
    done = command("file", desk.folder, "--tracker", "jira")
    assert (done.status, sum(desk.machine.requests.values())) == (2, runs)
    assert "'jira' is not one of 'pytorch', 'xla', 'openxla'" in done.output


def test_the_ledgers_script_stands_for_reduction_and_reproducer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, ...]] = []

    def run(text: str, python: str, raises: tuple[str, ...]) -> ScriptRun:
        assert python == sys.executable
        ran.append(raises)
        return ScriptRun(text=text, shown=True, output="expected 1, actual 2\n")

    monkeypatch.setattr(chain, "run_script", run)
    desk.campaign.corpus.amend(desk.folder.name, upstream=ALIVE)
    assert desk.advance().reason is None
    assert (ran, desk.opened) == ([()], 0)
    assert "parallelize_module" in (desk.folder / SCRIPT).read_text()
    assert readable.script((desk.folder / SCRIPT).read_text()) in (desk.folder / DRAFT).read_text()


def test_a_script_is_taken_from_the_ledgers_faults_alone() -> None:
    fault = next(fault for fault in read_faults() if fault.raises and not fault.issue)
    listed = known_script(fault.upstream[0])
    assert listed
    assert listed.raises == fault.raises
    for other in (f"{SCRIPTS}../faults.py", f"{SCRIPTS}none.py", ""):
        assert known_script(other) is None


def test_a_finding_of_an_earlier_version_names_the_script_as_it_is_called_now(desk: Desk) -> None:
    finding = the_finding(desk.campaign)
    file = desk.folder / FINDING
    old = {**json.loads(file.read_text()), "upstream": f"{FORMER}usual_forms_on_dtensor.py mse_loss"}
    file.write_text(json.dumps(old))
    read = desk.campaign.corpus.finding(finding.fingerprint)
    assert read.upstream == f"{SCRIPTS}mse_loss_on_dtensor.py"
    listed = known_script(read.upstream)
    assert listed
    assert "mse_loss" in listed.text


@pytest.mark.parametrize("installed", [True, False])
def test_the_graph_of_a_compiler_crash_is_compiled_by_a_newer_xla_where_there_is_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    monkeypatch.delenv(made_environments.VARIABLE, raising=False)
    where = made_environments.home() / "jax"
    if installed:
        where.mkdir(parents=True)
        (where / made_environments.COMPLETE).touch()
    asked: list[tuple[Path, int]] = []

    def recompile(python: Path, _graphs: Path, ranks: int, _needle: str) -> str:
        asked.append((python, ranks))
        return "diverges: SIGABRT with jaxlib 0.10.2, the same message"

    monkeypatch.setattr(recompilation, "recompile", recompile)
    monkeypatch.setattr(chain, "keep_script", lambda *_: ("graph0.stablehlo.txt",))
    corpus = desk.campaign.corpus
    crash = replaced(
        the_finding(desk.campaign).divergence,
        symptom=Symptom.CRASH,
        side="xla",
        detail="step 0, backward, rank 0: SIGABRT: F external/xla/x.h:1] Check failed: IsScalar(x)",
    )
    corpus.amend(desk.folder.name, divergence=crash)
    say = desk.lines.append

    def no_network() -> Path:
        msg = "no network"
        raise InfrastructureError(msg)

    made = DraftChain(
        machine=desk.opens,
        say=say,
        budget=1,
        ledger=Ledger(),
        most_a_day=5,
        consent=own_alone,
        newest_jaxlib=no_network,
    )
    text = 'os.environ.update(CPU_NUM_DEVICES="5")\n'
    shown = Reproduction(reason=None, script=ScriptRun(text=text, shown=True, output=""))
    made._keep(Filing.read(desk.folder, Ledger()), shown)  # noqa: SLF001
    assert asked == ([(where / "bin" / "python", 5)] if installed else [])
    assert corpus.finding(desk.folder.name).evidence.get("replayed", "").startswith("diverges") == installed
    assert ("cannot be installed to compile its graph: no network" in desk.lines[-1]) != installed


def test_a_chain_for_the_compilers_tracker_names_the_pass_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Snapshot("0", "simplification", "algsimp", "", "HloModule m, metadata={}\n")
    verdict = Verdict(kind="pass", reason="wrong after it", guilty="algsimp", before=module, after=module)
    programs: list[AccusedProgram] = []

    def accuse(program: AccusedProgram) -> Accusation:
        programs.append(program)
        return Accusation(verdict=verdict, smallest=verdict)

    monkeypatch.setattr(accusation, "accuse", accuse)
    for _ in range(2):
        desk.advance(tracker="openxla")
    assert [program.scripts for program in programs] == [("import torch\n",)]
    evidence = desk.campaign.corpus.finding(desk.folder.name).evidence
    assert evidence[GUILTY_PASS] == "algsimp: wrong after it"
    assert {file.name for file in (desk.folder / ARTIFACTS).iterdir()} == {BEFORE_PASS, AFTER_PASS}
    written = (desk.folder / DRAFT).read_text()
    assert "### The pass\n\nalgsimp: wrong after it." in written
    assert written.count("HloModule m") == 2
