"""The chain from a finding to its draft: minimize, ablate, reproducer, draft.

What an earlier chain, or the single commands, have done is not done again. A finding whose fault has a script
in the ledger needs the first three no more: that script is run instead.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from difftest.campaign.campaign import Campaign
from difftest.findings.ledger import Ledger
from difftest.ground import made_environments
from difftest.ground.clock import utc_today
from difftest.ground.errors import UsageError
from difftest.jobs.ask.capacity import check_runnable, is_runnable, require_possible
from difftest.jobs.ask.consent import require_own_finding
from difftest.jobs.ask.targets import FindingTarget, read_finding
from difftest.jobs.filing.ablation import ablated
from difftest.jobs.filing.draft import Issue, read_text, write_issue
from difftest.jobs.filing.execution import Machine, executing, python_of
from difftest.jobs.filing.kept_script import keep_script, replayed
from difftest.jobs.filing.known_script import KnownScript, known_script
from difftest.jobs.filing.reduction import keep, read_task, search, size_in_words
from difftest.jobs.filing.reproduction import Reproduction, reproduce
from difftest.jobs.filing.script_runs import run_script
from difftest.jobs.screen.activity import Working
from difftest.judge.outcome import Symptom
from difftest.records import own_scripts
from difftest.records.corpus import OUTPUT, REDUCED, SCRIPT
from difftest.records.own_cases import is_own_finding

Say: TypeAlias = Callable[[str], None]


COMPILER_TRACKER = "openxla"
NEWEST_XLA = "torchax"
"""The environment (`difftest environments make`) with the newest jaxlib."""


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
class Chain:
    """How findings are taken to their drafts.

    `machine` runs cases, `say` gets a line when a stage begins or ends. A reduction runs at most `budget`
    cases. A `machine` that `is_open` runs those of the reproducer too. `ledger` names the scripts of known
    faults. `tracker` is chosen by the evidence where it is None, and a corpus gets `most_a_day` drafts.
    `consent` raises `UsageError` for a finding whose script, or user's module, may not be run.
    """

    machine: Machine
    say: Say
    budget: int
    ledger: Ledger
    tracker: str | None = None
    most_a_day: int
    consent: Callable[[FindingTarget], None]
    is_open: bool = False

    def advance(self, folder: Path) -> Issue:
        """Takes the finding in `folder` through the stages that it still needs.

        `HaltError` where a stage cannot go on.
        """
        subject = _as_listed_now(read_finding(folder), self.ledger)
        self._require_worth(subject)
        listed = known_script(subject.finding)
        if has_own_script(subject):
            self.say("reproducer: done before")
        elif listed:
            self._run_listed(subject, listed)
        else:
            self.consent(subject)
            self._reduce_and_ablate(subject)
            self._reproduce(read_finding(folder))
        issue = write_issue(read_finding(folder), self.tracker, self.most_a_day, None)
        if issue.reason:
            msg = f"draft: {issue.reason}"
            raise HaltError(msg)
        return issue

    def _require_worth(self, subject: FindingTarget) -> None:
        """`HaltError` where there would be no draft in the end, before anything is run for it."""
        from reports.draft.refusal import refusal

        if reason := refusal(subject.finding):
            msg = f"no draft: {reason}"
            raise HaltError(msg)
        if not known_script(subject.finding):
            require_possible(subject.case)

    def _reduce_and_ablate(self, subject: FindingTarget) -> None:
        stages = [stage for done, stage in self._stages(subject) if not done]
        if not stages:
            self.say("minimize, ablate: done before")
            return
        with self.machine(subject) as campaign:
            for stage in stages:
                stage(campaign, read_finding(subject.folder))

    def _stages(
        self, subject: FindingTarget
    ) -> Iterator[tuple[bool, Callable[[Campaign, FindingTarget], None]]]:
        """The stages that run cases, each with whether it is done; answers about a larger case are not."""
        minimized = (subject.folder / REDUCED).is_file() and not read_task(
            subject.folder, (), None
        ).journal.exists()
        yield minimized, self._minimize
        yield minimized and bool(subject.finding.ablations), self._ablate

    def _minimize(self, campaign: Campaign, subject: FindingTarget) -> None:
        self.say(f"minimize: looks for the smallest case, in at most {self.budget} runs")
        reduction = search(campaign, read_task(subject.folder, (), None), self.budget)
        if reduction is None:
            raise HaltError(_absent("minimize", subject))
        keep(*reduction)
        reduced = reduction[1]
        more = "" if reduced.complete else "; the budget ended it, and `difftest minimize` continues it"
        self.say(f"minimize: {size_in_words(reduced.case)}{more}")

    def _ablate(self, campaign: Campaign, subject: FindingTarget) -> None:
        self.say("ablate: changes one thing of the case at a time")
        result = ablated(campaign, subject)
        if result is None:
            raise HaltError(_absent("ablate", subject))
        self.say(f"ablate: {len(result.answers)} answers")

    def _reproduce(self, subject: FindingTarget) -> None:
        self.say("reproducer: writes a script, and runs it")
        with executing(subject, self.machine, is_open=self.is_open) as execute, Working("reproducer"):
            made = reproduce(subject.finding, subject.case, execute)
        self._keep(subject, made)

    def _run_listed(self, subject: FindingTarget, listed: KnownScript) -> None:
        self.say(f"reproducer: runs {subject.finding.upstream}, which shows the fault; it needs no reduction")
        with Working("reproducer"):
            python = python_of(subject.finding.divergence.backend)
            script = run_script(listed.text, python=python, raises=listed.raises)
        answer = "does not show the fault here" if script.absent else "ended without an answer here"
        reason = None if script.shown else f"the ledger's script {answer}"
        self._keep(subject, Reproduction(reason=reason, script=script))

    def _keep(self, subject: FindingTarget, made: Reproduction) -> None:
        graphs = keep_script(subject, made, subject.folder / SCRIPT)
        if made.reason or not made.script:
            output = made.script.output if made.script else ""
            hint = f"`difftest replay {subject.folder}` runs its case again"
            msg = f"reproducer: {made.reason}; {hint}\n{output}".rstrip()
            raise HaltError(msg)
        self.say(f"reproducer: {made.script.text.count(chr(10))} lines, which show the fault")
        if graphs and subject.finding.divergence.symptom is Symptom.CRASH:
            self._replay(subject, made.script.text)

    def _replay(self, subject: FindingTarget, script: str) -> None:
        """Compiles the graph of a crash with a newer XLA, if one is here: its maintainers ask for that."""
        from reports.draft.tracker import tracker

        if (self.tracker or tracker(subject.finding)) != COMPILER_TRACKER:
            return
        python = made_environments.python(NEWEST_XLA)
        if python is None:
            hint = f"`difftest environments make {NEWEST_XLA}` installs one"
            self.say(f"reproducer: no newer jaxlib is here to compile its graph; {hint}")
        else:
            self.say(f"reproducer: another XLA: {replayed(subject, python, script)}")


def has_own_script(subject: FindingTarget) -> bool:
    """Whether difftest wrote and ran the script in a finding's folder, for the case that it has now."""
    script, output = (read_text(subject.folder / name) for name in (SCRIPT, OUTPUT))
    if not own_scripts.has_printed(subject.finding.fingerprint, script, output):
        return False
    listed = known_script(subject.finding)
    return bool(subject.finding.ablations) if listed is None else script == listed.text


def _as_listed_now(subject: FindingTarget, ledger: Ledger) -> FindingTarget:
    """The finding with what the ledger says of it today, which may be more than when it was found."""
    finding, case = subject.finding, subject.corpus.case(subject.finding.fingerprint)
    entry = (
        None if finding.upstream else ledger.entry(finding.divergence, case, utc_today(), finding.evidence)
    )
    if entry is None:
        return subject
    return replace(subject, finding=subject.corpus.amend(finding.fingerprint, upstream=entry.upstream))


def _absent(stage: str, subject: FindingTarget) -> str:
    hint = f"`difftest triage {subject.folder.parent}` runs it again"
    return f"{stage}: case {subject.case.id} does not show the finding now; {hint}"
