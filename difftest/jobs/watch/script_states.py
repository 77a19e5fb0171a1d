"""What the script of a known fault says of the packages of some Python: alive, fixed or unclear."""

import re
import subprocess
from collections.abc import Mapping

import msgspec

from difftest.findings.faults import KnownFault, KnownScript
from difftest.findings.flips import GSPMD, SHARDY
from difftest.ground.errors import InfrastructureError
from difftest.jobs.filing.script_runs import SECONDS, TRACEBACK, ScriptRun, run_script
from difftest.records.finding import State

NOT_THERE = "not there"
"""What scripts of several faults print of those that are fixed; a rank says so, and its parent raises."""

NEEDS_GPU = "needs a GPU"
"""What a script of a fault in torch's CUDA code prints on a machine without a GPU: nothing is known then."""

NO_RULE = "does not have a sharding"
"""What DTensor says of an operator without a rule: what failed before is fixed, as this is another fault."""

RANK_PASSES = re.compile(r"ProcessExitedException: process \d+ terminated with exit code 1\s*$")
"""How the parent ends whose ranks say by status 1 that the fault is not there; one that raises is named."""

EXCEPTION = re.compile(r"^(?:\[rank\d+\]:\s*)?(?P<line>[\w.]*(?:Error|Exception): \S.*)", re.MULTILINE)
"""What Python says of an exception, in a rank too; a message of many lines, or C++'s stack, may follow it."""

MOST_NOTE = 200
"""Characters kept of the line that says how a script failed."""

PARTITIONERS: Mapping[str, Mapping[str, str]] = {
    "": {},
    SHARDY: {"JAX_USE_SHARDY_PARTITIONER": "1"},
    GSPMD: {"JAX_USE_SHARDY_PARTITIONER": "0"},
}
"""The variables by which JAX gives a program to one of XLA's partitioners; JAX's own choice is Shardy."""

_VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]).partition('+')[0])"
_STAND_IN = "from workers.tpu import build; print(build.library())"


class ScriptState(msgspec.Struct, frozen=True, kw_only=True):
    """What one script said: `note` is the line that it ended with, where that is `unclear`."""

    state: State
    note: str = ""


def partitioners(script: KnownScript) -> tuple[str, ...]:
    """The partitioners with which a script for jaxlib is run, of `PARTITIONERS`.

    They are several where XLA cuts the program, so that the partitioner may decide.
    """
    return (SHARDY, GSPMD) if "Mesh(" in script.text else ("",)


def state_on(
    python: str, script: KnownScript, variables: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> ScriptState | None:
    """Runs a script in a Python of its own; None where this machine cannot say, for want of a GPU."""
    return state_of(run_script(script.text, seconds, python, script.raises, variables or {}), script)


def state_of(run: ScriptRun, script: KnownScript) -> ScriptState | None:
    """What a run of a script says of the fault, which the script shows by an exception, or by its status."""
    if NEEDS_GPU in run.output:
        return None
    if run.shown:
        return ScriptState(state="alive")
    by_rank = NO_RULE in run.output if script.raises else RANK_PASSES.search(run.output)
    fixed = run.absent or NOT_THERE in run.output or by_rank
    return ScriptState(state="fixed") if fixed else ScriptState(state="unclear", note=ending(run.output))


def ending(output: str) -> str:
    """The line that says how a script failed: that of the last exception, else the last one."""
    lines = [match["line"] for match in EXCEPTION.finditer(output)] or [
        line for line in output.splitlines() if line.strip() and TRACEBACK not in line
    ]
    return lines[-1].strip()[:MOST_NOTE] if lines else "no output"


def version(python: str, distribution: str) -> str:
    """The release of a distribution in an environment, without its local part; empty where it lacks it."""
    command = [python, "-c", _VERSION, distribution]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  Python itself
    return done.stdout.strip()


def variables_of(fault: KnownFault, python: str) -> dict[str, str]:
    """What a fault's script needs: torch_tpu's, the PJRT plugin that takes the place of libtpu.

    It is built where it is not there yet. `InfrastructureError` where it cannot be built.
    """
    if fault.package != "torch_tpu":
        return {}
    from workers.isolate.zygotes import ROOT

    command = [python, "-c", _STAND_IN]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  our own
    if done.returncode:
        msg = f"the stand-in for libtpu cannot be built with {python}: {ending(done.stderr)}"
        raise InfrastructureError(msg)
    return {"TPU_LIBRARY_PATH": done.stdout.strip()}
