"""What `difftest bisect` asks a version: a script, run a few times in an environment that has the version."""

from pathlib import Path

from difftest.commands.service import case_script
from difftest.commands.service.environments import Environments
from difftest.commands.service.scripts import run_script
from difftest.commands.service.targets import read_finding
from difftest.errors import InfrastructureError, UsageError
from difftest.findings.bisect import VersionResult
from difftest.records.corpus import SCRIPT


def read_script(target: Path) -> tuple[str, tuple[str, ...]]:
    """The script to run, and the installer's arguments that it needs in addition.

    `target` is a script, or a finding's folder: its reproducer, or a script that runs its case. `UsageError`
    for anything else.
    """
    if target.is_dir() and not (target / SCRIPT).exists():
        subject = read_finding(target)
        return case_script.script(subject.finding, subject.case), case_script.requirement()
    file = target / SCRIPT if target.is_dir() else target
    try:
        return file.read_text(), ()
    except (OSError, UnicodeError) as error:
        msg = f"cannot read {str(file)!r}: {error}"
        raise UsageError(msg) from error


def ask_version(
    environments: Environments, text: str, version: str, times: int, seconds: float
) -> VersionResult:
    """Runs a script `times` times in a version's environment.

    A version whose environment cannot be made gives no answer, but the reason.
    """
    try:
        python = environments.interpreter(version)
    except InfrastructureError as error:
        return VersionResult(version=version, output=str(error))
    runs = [run_script(text, seconds, str(python)) for _ in range(times)]
    return VersionResult(
        version=version,
        shown=sum(run.shown for run in runs),
        absent=sum(run.absent for run in runs),
        times=times,
        output=runs[-1].output,
    )
