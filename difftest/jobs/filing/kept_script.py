"""A finding's script on disk: the script that was run, its output, and what XLA compiled of it."""

from pathlib import Path

from difftest.jobs.ask.consent import noted
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing.execution import python_of
from difftest.jobs.filing.recompilation import INCONCLUSIVE, recompile
from difftest.jobs.filing.reproduction import Reproduction
from difftest.jobs.filing.script_runs import keep_graphs
from difftest.jobs.screen.output import write_text
from difftest.judge.outcome import Symptom
from difftest.records import own_scripts, reduced_run
from difftest.records.corpus import ARTIFACTS, OUTPUT, SCRIPT
from difftest.records.evidence import REPLAYED
from difftest.records.finding import Finding


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


def replayed(subject: FindingTarget, python: Path, script: str) -> tuple[Finding, str]:
    """How the jaxlib of `python` compiles the graph of a crash, with the finding as it is then.

    It is kept as evidence unless it is inconclusive. `script` made the graph, and says for how many devices.
    """
    if subject.finding.divergence.symptom is not Symptom.CRASH:
        only = (
            "only the graphs of compiler crashes are recompiled; wrong numbers would need the graph's inputs"
        )
        return subject.finding, f"{INCONCLUSIVE}: {only}"
    from reports.draft.draft import devices
    from reports.reproducer.fault import needle

    failure = subject.finding.divergence.failure
    ranks = devices(script) or subject.case.world_size
    result = recompile(python, subject.folder / ARTIFACTS, ranks, needle(failure.message if failure else ""))
    if result.startswith(INCONCLUSIVE):
        return subject.finding, result
    evidence = {**subject.finding.evidence, REPLAYED: result}
    return subject.corpus.amend(subject.finding.fingerprint, evidence=evidence), result
