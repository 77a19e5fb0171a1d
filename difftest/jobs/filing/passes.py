"""The pass of XLA that is at fault for what a script, or a module, shows."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from difftest.jobs.filing.pass_runs import PassRun, compile_passes, run_passes
from difftest.passes.guilty import Verdict, judge
from difftest.passes.hlo import UnreadableError
from difftest.passes.module_runs import drawn
from difftest.passes.smallest import Candidate, first_candidates
from difftest.passes.snapshots import Dump

_SHARDING = re.compile(r", sharding=\{(?:[^{}]|\{[^{}]*\})*\}")


def of_script(text: str, python: str = sys.executable) -> Verdict:
    """The verdict about what a script on JAX or torch_xla compiles and runs."""
    return of_run(run_passes(text, python), python)


def of_module(text: str, python: str = sys.executable) -> Verdict:
    """The verdict about a module, HLO or StableHLO as text, which the jaxlib of `python` compiles."""
    return of_run(compile_passes([text], python), python)


def of_run(run: PassRun, python: str) -> Verdict:
    """The verdict about a run: the pass in which XLA stopped, or after which numbers are wrong."""
    if not run.dumps:
        last = run.output.strip().splitlines()[-1:]
        reason = "XLA compiled nothing" + (f", and the script said: {last[0]}" if last else "")
        return Verdict(
            kind="frontend" if run.failure else "unclear", reason=f"{reason}; {run.failure}".rstrip("; ")
        )
    if run.failure and run.stopped:
        return _stopped(run, run.dumps[-1], python)
    verdicts = list[Verdict]()
    for strict in (False, True):
        for dump in run.dumps:
            verdicts += _judged(run, dump, strict=strict)
            if verdicts and verdicts[-1].accuses:
                return verdicts[-1]
    return next((each for each in verdicts if each.kind == "unclear"), verdicts[0])


def _judged(run: PassRun, dump: Dump, *, strict: bool) -> list[Verdict]:
    """The verdict about a module; none where it is to be strict without numbers of its own."""
    try:
        own = run.calls_of(dump)
        if strict and not own:
            return []
        return [judge(dump, own or list(drawn(dump.first.module)), strict=strict)]
    except UnreadableError as error:
        return [Verdict(kind="unclear", reason=f"{dump.name}: {error}", compiled=dump.name)]


def _stopped(run: PassRun, dump: Dump, python: str) -> Verdict:
    """The verdict about a module that XLA did not compile: its control is the same without shardings."""
    control = compile_passes([_SHARDING.sub("", whole(dump.first.text))], python)
    given = Verdict(
        kind="crash",
        reason=f"XLA stops in {run.running}: {run.failure}",
        guilty=run.running,
        compiled=dump.name,
        before=dump.snapshots[-1],
        snapshots=len(dump.snapshots),
    )
    if dump.finished:
        given = replace(
            given, kind="code generation", guilty="", reason=f"XLA stops after the last pass: {run.failure}"
        )
    if "compiled" in control.output.splitlines():
        return replace(given, control="the same module without shardings, on one device, compiles")
    if dump.first.module.partitions == 1:
        return replace(given, control="none: the module has no shardings to leave out")
    why = control.failure or control.output.strip()[-200:] or "its process ended without a word"
    return replace(
        given,
        kind="unclear",
        guilty="",
        reason=f"{given.reason}; without shardings it does not compile either: {why}",
    )


def whole(text: str) -> str:
    """A module's text as a program of one device."""
    return re.sub(r", num_partitions=\d+", "", text)


ROUNDS = 30
MOST_CANDIDATES = 120
"""How often, and how many, smaller modules are compiled."""


def smallest(verdict: Verdict, python: str = sys.executable) -> Verdict:
    """The verdict about the smallest module found for which the same pass is at fault.

    The verdict as it is where there is none: each candidate is compiled by the jaxlib of `python`.
    """
    candidates = first_candidates(verdict) if verdict.kind == "pass" else ()
    for _ in range(ROUNDS):
        accusing = _first_accusing(candidates, verdict.guilty, python)
        if accusing is None:
            return verdict
        candidates, verdict = tuple(accusing[0].smaller()), accusing[1]
    return verdict


def _first_accusing(
    candidates: Sequence[Candidate], guilty: str, python: str
) -> tuple[Candidate, Verdict] | None:
    """The first of the candidates for which the same pass is at fault, and that verdict."""
    tried = candidates[:MOST_CANDIDATES]
    if not tried:
        return None
    run = compile_passes([each.text(f"smaller_{at}") for at, each in enumerate(tried)], python)
    dumps = {dump.name.partition(".")[2]: dump for dump in run.dumps}
    for at, each in enumerate(tried):
        dump = dumps.get(f"smaller_{at}")
        verdict = judge(dump, [each.call]) if dump else None
        if verdict and verdict.kind == "pass" and verdict.guilty == guilty:
            return each, verdict
    return None
