"""What `difftest passes` asks of XLA: a finding, a known fault or a file, and what came of it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from difftest.findings.faults import KnownFault, read_faults
from difftest.ground import made_environments
from difftest.ground.errors import UsageError
from difftest.ground.plugins import IN
from difftest.jobs.ask.targets import FindingTarget, read_finding
from difftest.jobs.filing.bisection import read_script
from difftest.jobs.filing.execution import python_of
from difftest.jobs.filing.passes import of_module, of_script, smallest
from difftest.jobs.screen.output import write_text
from difftest.passes.guilty import Verdict
from difftest.passes.hlo_text import without_origins
from difftest.records import read_limits
from difftest.records.corpus import AFTER_PASS, ARTIFACTS, BEFORE_PASS
from difftest.records.evidence import GUILTY_PASS
from difftest.records.finding import Finding

Array: TypeAlias = NDArray[Any]

MOST_ELEMENTS = 64
"""The largest arrays whose numbers are written below a module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccusedProgram:
    """What XLA compiles: scripts, of which the first that it gets wrong counts, or a module."""

    scripts: tuple[str, ...] = ()
    module: str = ""
    python: str = sys.executable


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """The verdict about a whole program, and the same about the smallest module that was found for it."""

    verdict: Verdict
    smallest: Verdict

    def modules(self) -> Mapping[str, str]:
        """The smallest module before the pass and after it, by file name; empty without a guilty pass.

        The numbers that it is given, and that it gives, are comments below it, where they are few.
        """
        if self.verdict.kind not in ("pass", "crash"):
            return {}
        smallest, given = self.smallest, self.smallest.call.arguments if self.smallest.call else ()
        made = {
            BEFORE_PASS: (smallest.before, smallest.expected),
            AFTER_PASS: (smallest.after, smallest.actual),
        }
        return {
            name: "\n".join((without_origins(each.text).strip(), *_numbers(given, results), ""))
            for name, (each, results) in made.items()
            if each
        }

    def sentence(self) -> str:
        """The verdict in a line, beginning with the pass."""
        control = f"; control: {self.verdict.control}" if self.verdict.control else ""
        return f"{self.verdict.name}: {self.verdict.reason}{control}"


def _numbers(arguments: Sequence[Array], results: Sequence[Array]) -> Iterator[str]:
    for word, arrays in (("parameter", arguments), ("result", results)):
        for number, array in enumerate(arrays):
            if array.size <= MOST_ELEMENTS:
                yield f"// {word} {number}: {np.asarray(array).tolist()}"


def program_of(target: Path, environment: str | None, *, trust: bool = False) -> AccusedProgram:
    """The program that a finding's folder, the name of a known fault, a script or a module names.

    `UsageError` for anything else.
    """
    fault = next((one for one in read_faults() if str(target) in (one.name, f"{one.name}.py")), None)
    if fault is not None and not target.exists():
        return AccusedProgram(scripts=scripts_of(fault), python=_python(environment))
    if target.is_dir():
        finding = read_finding(target).finding
        backend = finding.divergence.backend
        text, extra = read_script(target, trust=trust)
        if extra:
            msg = f"{str(target)!r} has no reproducer; `difftest reproducer {target}` writes one"
            raise UsageError(msg)
        return AccusedProgram(
            scripts=(text,), python=_python(environment) if environment else python_of(backend)
        )
    if not target.is_file():
        allowed = ", ".join(fault.name for fault in read_faults() if fault.package == "XLA")
        msg = f"{str(target)!r} is no finding, no file, and no known fault of XLA; known faults: {allowed}"
        raise UsageError(msg)
    if target.suffix == ".py":
        return AccusedProgram(scripts=(read_script(target, trust=trust)[0],), python=_python(environment))
    text = read_limits.read(target, read_limits.MOST_SCRIPT_BYTES).decode(errors="replace")
    return AccusedProgram(module=text, python=_python(environment))


def scripts_of(fault: KnownFault) -> tuple[str, ...]:
    """The scripts of a fault, that with jaxlib alone first: it leaves the numbers that it ran on."""
    scripts = fault.shown_on_jax_by, fault.shown_by
    return tuple(script.text for script in scripts if script)


def accuse(program: AccusedProgram, *, whole: bool = False) -> Accusation:
    """The pass that is at fault for what a program shows; unless `whole`, with the smallest module for it."""
    if program.module:
        verdict = of_module(program.module, program.python)
    else:
        for text in program.scripts:
            verdict = of_script(text, program.python)
            if verdict.accuses:
                break
    return Accusation(verdict=verdict, smallest=verdict if whole else smallest(verdict, program.python))


def keep(subject: FindingTarget, accusation: Accusation) -> Finding:
    """Writes the modules to the finding's artifacts, and the verdict to its evidence."""
    for name in (BEFORE_PASS, AFTER_PASS):
        (subject.folder / ARTIFACTS / name).unlink(missing_ok=True)
    (subject.folder / ARTIFACTS).mkdir(exist_ok=True)
    for name, text in accusation.modules().items():
        write_text(subject.folder / ARTIFACTS / name, text)
    evidence = {**subject.finding.evidence, GUILTY_PASS: accusation.sentence()}
    return subject.corpus.amend(subject.finding.fingerprint, evidence=evidence)


def _python(environment: str | None) -> str:
    if environment is None:
        return sys.executable
    python = made_environments.python(environment.lstrip(IN))
    if python is None:
        msg = f"there is no environment {environment!r}; `difftest environments make {environment}` makes it"
        raise UsageError(msg)
    return str(python)
