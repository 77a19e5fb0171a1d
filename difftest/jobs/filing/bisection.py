"""What `difftest bisect` asks a version: a script, run a few times in an environment that has the version."""

from pathlib import Path

from difftest.findings.bisect import VersionResult
from difftest.findings.faults import raises_of
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.consent import require_consent
from difftest.jobs.ask.targets import read_finding
from difftest.jobs.filing import case_script
from difftest.jobs.filing.script_runs import run_script
from difftest.jobs.installed.environments import Environments
from difftest.records import own_scripts, read_limits
from difftest.records.corpus import FINDING, SCRIPT


def read_script(target: Path, *, trust: bool = False) -> tuple[str, tuple[str, ...]]:
    """The script to run, and the installer's arguments that it needs in addition.

    `target` is a script, or a finding's folder: its reproducer, or a script that runs its case. `UsageError`
    for anything else. A script in a finding's folder that difftest did not write and run for this user is
    refused, unless `trust` is set or the user agrees on the terminal.
    """
    folder = target if target.is_dir() else target.parent
    in_finding = target.is_dir() or (folder / FINDING).exists()
    if not in_finding:
        return _text(target), ()
    subject = read_finding(folder)
    file = subject.folder / (SCRIPT if target.is_dir() else target.name)
    if target.is_dir() and not file.exists():
        return case_script.script(subject.finding, subject.case), case_script.requirement()
    text = _text(file)
    if not own_scripts.is_own(subject.finding.fingerprint, text):
        whose = f"{str(file)!r} is not a script that difftest wrote and ran for you, or was changed since"
        require_consent(whose, trust=trust, instead=", or write another with `difftest reproducer`")
    return text, ()


def _text(file: Path) -> str:
    """The content of a script; `UsageError` where it cannot be read."""
    try:
        return read_limits.read(file, read_limits.MOST_SCRIPT_BYTES).decode()
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
    runs = [run_script(text, seconds, str(python), raises_of(text)) for _ in range(times)]
    return VersionResult(
        version=version,
        shown=sum(run.shown for run in runs),
        absent=sum(run.absent for run in runs),
        times=times,
        output=runs[-1].output,
    )
