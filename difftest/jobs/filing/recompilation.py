"""Recompiling the StableHLO that torch_xla crashed on with another XLA, the jaxlib of any Python.

The graph is only compiled, which is enough to show a crash of the compiler; to show wrong numbers the graph's
inputs would be needed. Nothing asks for Shardy, JAX's own partitioner: torch_xla uses GSPMD, and Shardy would
ignore the graph's shardings and show nothing.
"""

import re
import signal
import subprocess
from pathlib import Path

from difftest.ground.own_folder import own_folder
from difftest.jobs.ask.targets import FindingTarget
from difftest.judge.outcome import Symptom
from difftest.records.corpus import ARTIFACTS
from difftest.records.evidence import REPLAYED
from difftest.records.finding import Finding

SECONDS = 300.0
INCONCLUSIVE = "inconclusive"


def recompile(python: Path, graphs: Path, ranks: int, needle: str) -> str:
    """Compiles the last graph in the folder `graphs` with the jaxlib of `python`, for `ranks` devices.

    The result begins with `diverges` when the compiler dies with `needle` in its message, and with `agrees`
    when it compiles. Anything else (no jax there, another interface, another death) begins with
    `INCONCLUSIVE` and says why.
    """
    from reports.draft.compilation import GRAPH, PROGRAM, compile_program

    saved = sorted(graphs.glob("graph*.stablehlo.txt"))
    if not saved:
        return f"{INCONCLUSIVE}: no StableHLO was kept"
    with own_folder("graphs") as folder:
        (folder / GRAPH).write_bytes(saved[-1].read_bytes())
        (folder / PROGRAM).write_text(compile_program(ranks))
        try:
            done = subprocess.run(  # noqa: S603  the user named this Python
                [str(python.absolute()), PROGRAM],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=SECONDS,
                cwd=folder,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{INCONCLUSIVE}: {error}"
    version = re.search(r"^jaxlib (\S+)", done.stdout, re.MULTILINE)
    compiler = f"jaxlib {version[1]}" if version else "that Python"
    if "compiled" in done.stdout.splitlines():
        return f"agrees: it compiles with {compiler}"
    if done.returncode < 0 and needle and needle in done.stderr:
        return f"diverges: {signal.Signals(-done.returncode).name} with {compiler}, the same message"
    return f"{INCONCLUSIVE}: {compiler}: {''.join(done.stderr.strip().splitlines()[-1:])[:200]}"


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
