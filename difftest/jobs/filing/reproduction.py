"""Making a reproducer: one more run of the case, scripts until one of them shows the same, and its files."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from difftest.campaign.campaign import ORACLE, Execute
from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.twins import is_twin
from difftest.findings import titles
from difftest.ground.plugins import plain
from difftest.jobs.ask.consent import noted
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing.block_sources import block_texts
from difftest.jobs.filing.execution import here, python_of
from difftest.jobs.filing.right_numbers import right_numbers
from difftest.jobs.filing.script_runs import ScriptRun, keep_graphs, run_script
from difftest.jobs.screen.output import write_text
from difftest.judge import checks
from difftest.judge.comparator import divergences_in_order
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Failure
from difftest.records import own_scripts, reduced_run
from difftest.records.corpus import ARTIFACTS, OUTPUT, SCRIPT
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun

if TYPE_CHECKING:
    from reports.reproducer.fault import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The result of looking for a reproducer.

    `script` showed the fault, else it is the last that did not, and None if none was run. `reason` says why
    there is no reproducer, and is None when there is one. `run` is what the case showed before the script was
    written; None for a script that was written before.
    """

    reason: str | None
    script: ScriptRun | None = None
    run: ReducedRun | None = None


def reproduce(finding: Finding, case: Case, execute: Execute = here) -> Reproduction:
    """Looks for a script that shows `finding`, starting from one more run of `case`.

    The script runs in the environment of the finding's backend, and so must what `execute` runs.
    `UsageError` where that is not on this machine.
    """
    from workers.backends import titles as called

    if reason := _refusal(finding, case):
        return Reproduction(reason=reason)
    python = python_of(finding.divergence.backend)
    observed = observe(finding, case, execute)
    if isinstance(observed, str):
        return Reproduction(reason=observed)
    fault, run = observed
    last = None
    title = titles.upstream_title(msgspec.structs.replace(finding, divergence=run.divergence), called())
    for text in scripts(finding, case, fault, title):
        last = run_script(text, python=python)
        if last.shown:
            return Reproduction(reason=None, script=last, run=run)
    return Reproduction(reason="the script does not show the fault", script=last)


def observe(finding: Finding, case: Case, execute: Execute = here) -> "tuple[Fault, ReducedRun] | str":
    """What a script must show, and one more run of `case`; in words, why there is nothing to show."""
    from reports.reproducer.fault import fault_of

    truth = execute(case, ORACLE, MORE_SAMPLES if finding.divergence.ratio is not None else {})
    outcome = execute(case, finding.divergence.backend, {})
    if isinstance(truth, Failure):
        return f"the float64 reference failed: {truth.kind}: {truth.message}"
    exact = inexact(case) is None
    run = measure_run(case, finding.divergence.backend, finding.divergence.side, truth, outcome, exact=exact)
    divergences = divergences_in_order(run)
    divergence = next((d for d in divergences if d.fingerprint == finding.fingerprint), None)
    if divergence is None:
        instead = divergences[0].fingerprint if divergences else "agrees with the oracle"
        return f"case {case.id} does not show it now, but {instead}"
    measurement = run.measured.get((divergence.step, divergence.stage, divergence.tensor))
    fault = fault_of(divergence, outcome, measurement)
    facts = truth.events.facts.items()
    used = [(name, fact.dtype) for name, fact in facts if fact.requires_grad]
    results = dict(used[:1] if case.training.loss == "first_cotangent" else used)
    if fault is None or (is_twin(case) and fault.kind != "numbers"):
        return _no_script_shows(divergence.check)
    right = right_numbers(run, (fault.step, fault.stage, fault.tensor)) if is_twin(case) else None
    kept = ReducedRun(
        case=case.id, divergence=divergence, measurement=measurement, environment=outcome.environment
    )
    return replace(fault, results=results, right=right), kept


def _refusal(finding: Finding, case: Case) -> str | None:
    """Why there can be no script, if that is certain before anything is run; None where there can be one."""
    from reports.reproducer.refusal import refusal

    check = checks.load_all().get(finding.divergence.check)
    if check is not None and not check.TRAITS.scripts:
        return _no_script_shows(finding.divergence.check)
    return refusal(case, plain(finding.divergence.backend))


def _no_script_shows(check: str) -> str:
    return f"no script can show a finding of the check {check!r}, which looks at more than a run's numbers"


def scripts(finding: Finding, case: Case, fault: "Fault", title: str) -> Iterator[str]:
    """The scripts to try, shortest first: few faults need the case's own numbers."""
    from reports.reproducer import reproducer
    from reports.reproducer.fault import any_numbers
    from workers.training import tp_plan

    styled = not case.model.is_program and case.layout.mesh.names[-1] == tp_plan.AXIS
    parallelised = styled and not case.model.own and not tp_plan.refusal(case)
    plan = tp_plan.plan(case) if parallelised else {}
    backend, texts = plain(finding.divergence.backend), block_texts(case)
    rendered = partial(reproducer.render, case, backend, fault, title, plan, block_texts=texts)
    if any_numbers(case, fault, finding.divergence.ratio):
        for gate in reproducer.gates(case, backend, fault):
            yield rendered(plain=True, gate=gate)
    yield rendered()


def keep_script(
    subject: FindingTarget, reproduction: Reproduction, file: Path, *, graphs: bool = True
) -> tuple[str, ...]:
    """Writes the script that showed the finding to `file`, with its output beside it.

    Returns the names of the `graphs` that were kept, of findings on XLA. Where no script showed the finding,
    those that are in its folder are deleted: they show it no more.
    """
    from workers.backends import profile

    if reproduction.reason is not None or reproduction.script is None:
        if file == subject.folder / SCRIPT:
            for stale in (SCRIPT, OUTPUT):
                (subject.folder / stale).unlink(missing_ok=True)
        return ()
    script = reproduction.script
    if reproduction.run:
        reduced_run.keep(subject.folder, reproduction.run)
    write_text(file, script.text)
    write_text(file.with_name(OUTPUT), script.output)
    noted(lambda: own_scripts.remember(subject.finding.fingerprint, script.text, script.output))
    if graphs and profile(subject.finding.divergence.backend).on_pjrt:
        python = python_of(subject.finding.divergence.backend)
        return keep_graphs(script.text, subject.folder / ARTIFACTS, python=python)
    return ()
