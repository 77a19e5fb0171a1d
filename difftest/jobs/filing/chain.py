"""The chain from a finding to its draft: minimize, ablate, reproducer, draft.

What an earlier chain, or the single commands, have done is not done again. A finding whose fault has a script
in the ledger needs the first three no more: that script is run instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from difftest.campaign.campaign import Campaign
from difftest.findings.faults import KnownScript
from difftest.findings.ledger import Ledger
from difftest.ground import made_environments
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.ground.state_folder import state_folder
from difftest.jobs.ask.capacity import check_runnable, is_runnable, require_possible
from difftest.jobs.ask.consent import require_own_finding
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing.ablation import ablated
from difftest.jobs.filing.draft import Issue, limit_reached, write_issue
from difftest.jobs.filing.execution import Machine, executing, python_of
from difftest.jobs.filing.filing import Filing
from difftest.jobs.filing.recompilation import replayed
from difftest.jobs.filing.reduction import Task, keep, search, size_in_words, task_of
from difftest.jobs.filing.reproduction import Reproduction, keep_script, reproduce
from difftest.jobs.filing.script_runs import run_script
from difftest.jobs.installed.environments import make
from difftest.jobs.screen.activity import Working
from difftest.judge.outcome import Symptom
from difftest.records.corpus import SCRIPT
from difftest.records.evidence import GUILTY_PASS
from difftest.records.own_cases import is_own_finding

Say: TypeAlias = Callable[[str], None]


COMPILER_TRACKER = "openxla"
NEWEST_XLA = "jax"
"""The environment (`difftest environments make`) with the newest jaxlib."""


def newest_jaxlib() -> Path:
    """The Python of an environment with the newest jaxlib, beside those of `difftest bisect`."""
    with Working("install jaxlib"):
        return make(state_folder("bisect") / "jaxlib-newest", ["jaxlib", "numpy"])


def agreed(subject: FindingTarget, *, trust: bool) -> None:
    """Asks before what somebody else may have made is run: a user's module, and a finding's script."""
    check_runnable(subject.case, trust=trust)
    require_own_finding(subject, trust=trust)


def own_alone(subject: FindingTarget) -> None:
    """`UsageError` for what `agreed` would ask about."""
    if not (is_runnable(subject.case) and is_own_finding(subject.finding.fingerprint, subject.case)):
        msg = f"difftest did not make {str(subject.folder)!r} for you; `difftest file` asks before it runs it"
        raise UsageError(msg)


class HaltError(Exception):
    """A stage cannot go on; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftChain:
    """How findings are taken to their drafts.

    `machine` runs cases, `say` gets a line when a stage begins or ends. A reduction runs at most `budget`
    cases. A `machine` that `is_open` runs those of the reproducer too. `ledger` names the scripts of known
    faults. `tracker` is chosen by the evidence where it is None, and a corpus gets `most_a_day` drafts.
    `consent` raises `UsageError` for a finding whose script, or user's module, may not be run.
    `newest_jaxlib` gives the Python that compiles the graph of a crash, where the user has made no
    environment with one.
    """

    machine: Machine
    say: Say
    budget: int
    ledger: Ledger
    tracker: str | None = None
    most_a_day: int
    consent: Callable[[FindingTarget], None]
    is_open: bool = False
    newest_jaxlib: Callable[[], Path] = newest_jaxlib

    def advance(self, folder: Path) -> Issue:
        """Takes the finding in `folder` through the stages that it still needs.

        `HaltError` where a stage cannot go on.
        """
        filing = Filing.read(folder, self.ledger, as_listed_today=True)
        if reason := filing.refusal or limit_reached(filing.folder, self.most_a_day):
            msg = f"no draft: {reason}"
            raise HaltError(msg)
        if not filing.listed:
            require_possible(filing.case)
        if has_own_script(filing):
            self.say("reproducer: done before")
        elif filing.listed:
            filing = self._run_listed(filing, filing.listed)
        else:
            self.consent(filing)
            filing = self._reproduce(self._reduce_and_ablate(filing))
        filing = self._accuse(filing)
        issue = write_issue(filing, self.tracker, self.most_a_day, None)
        if issue.reason:
            msg = f"draft: {issue.reason}"
            raise HaltError(msg)
        return issue

    def _reduce_and_ablate(self, filing: Filing) -> Filing:
        """The filing after both stages, without those that are done; answers about a larger case are not."""
        task = task_of(filing)
        minimized = task.file.is_file() and not task.journal.exists()
        if minimized and filing.finding.ablations:
            self.say("minimize, ablate: done before")
            return filing
        with self.machine(filing) as campaign:
            return self._ablate(campaign, filing if minimized else self._minimize(campaign, filing, task))

    def _minimize(self, campaign: Campaign, filing: Filing, task: Task) -> Filing:
        self.say(f"minimize: looks for the smallest case, in at most {self.budget} runs")
        reduction = search(campaign, task, self.budget)
        if reduction is None:
            raise HaltError(_absent("minimize", filing))
        finding, reduced = keep(*reduction), reduction[1]
        more = "" if reduced.complete else "; the budget ended it, and `difftest minimize` continues it"
        self.say(f"minimize: {size_in_words(reduced.case)}{more}")
        return filing.after(finding or filing.finding, reduced.case)

    def _ablate(self, campaign: Campaign, filing: Filing) -> Filing:
        self.say("ablate: changes one thing of the case at a time")
        finding = ablated(campaign, filing)
        if finding is None:
            raise HaltError(_absent("ablate", filing))
        self.say(f"ablate: {len(finding.ablations)} answers")
        return filing.after(finding)

    def _reproduce(self, filing: Filing) -> Filing:
        self.say("reproducer: writes a script, and runs it")
        with executing(filing, self.machine, is_open=self.is_open) as execute, Working("reproducer"):
            reproduction = reproduce(filing.finding, filing.case, execute)
        return self._keep(filing, reproduction)

    def _run_listed(self, filing: Filing, listed: KnownScript) -> Filing:
        self.say(f"reproducer: runs {filing.finding.upstream}, which shows the fault; it needs no reduction")
        with Working("reproducer"):
            python = python_of(filing.finding.divergence.backend)
            script = run_script(listed.text, python=python, raises=listed.raises)
        answer = "does not show the fault here" if script.absent else "ended without an answer here"
        reason = None if script.shown else f"the ledger's script {answer}"
        return self._keep(filing, Reproduction(reason=reason, script=script))

    def _keep(self, filing: Filing, reproduction: Reproduction) -> Filing:
        graphs = keep_script(filing, reproduction, filing.folder / SCRIPT)
        script = reproduction.script
        if reproduction.reason or not script:
            hint = f"`difftest replay {filing.folder}` runs its case again"
            msg = f"reproducer: {reproduction.reason}; {hint}\n{script.output if script else ''}".rstrip()
            raise HaltError(msg)
        self.say(f"reproducer: {script.text.count(chr(10))} lines, which show the fault")
        filing = replace(filing, script=script.text, output=script.output)
        is_crash = filing.finding.divergence.symptom is Symptom.CRASH
        return self._recompile(filing) if graphs and is_crash else filing

    def _accuse(self, filing: Filing) -> Filing:
        """Names the pass of XLA that is at fault, which the compiler's maintainers ask for."""
        if (self.tracker or filing.tracker) != COMPILER_TRACKER or GUILTY_PASS in filing.finding.evidence:
            return filing
        from difftest.jobs.filing import accusation

        self.say("passes: evaluates the module after every pass of XLA")
        python = python_of(filing.finding.divergence.backend)
        program = accusation.AccusedProgram(scripts=(filing.script,), python=python)
        with Working("passes", counts=False):
            accused = accusation.accuse(program)
        self.say(f"passes: {accused.sentence()}")
        return filing.after(accusation.keep(filing, accused))

    def _recompile(self, filing: Filing) -> Filing:
        """Compiles the graph of a crash with a newer XLA, if one is here: its maintainers ask for that."""
        if (self.tracker or filing.tracker) != COMPILER_TRACKER:
            return filing
        try:
            python = made_environments.python(NEWEST_XLA) or self.newest_jaxlib()
        except InfrastructureError as error:
            self.say(f"reproducer: the newest jaxlib cannot be installed to compile its graph: {error}")
            return filing
        finding, result = replayed(filing, python, filing.script)
        self.say(f"reproducer: another XLA: {result}")
        return filing.after(finding)


def has_own_script(filing: Filing) -> bool:
    """Whether difftest wrote and ran the script in a finding's folder, for the case that it has now."""
    if not filing.ran_here:
        return False
    return filing.script == filing.listed.text if filing.listed else bool(filing.finding.ablations)


def _absent(stage: str, filing: Filing) -> str:
    hint = f"`difftest triage {filing.folder.parent}` runs it again"
    return f"{stage}: case {filing.case.id} does not show the finding now; {hint}"
