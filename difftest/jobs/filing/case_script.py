"""A finding's case as a script, which `difftest bisect` runs when the finding has no reproducer.

Unlike a reproducer, the script needs difftest in its environment, and therefore difftest's checkout.
Otherwise it is like any script for `difftest bisect`: it exits with status 0 when the fault is there and 1
when the case agrees with the oracle.
"""

from importlib.resources import files
from pathlib import Path

import click

from difftest.campaign.again import AGREES, rerun_for
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.ground.errors import UsageError
from difftest.jobs.filing.execution import here
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

TEXT = """\
from difftest.jobs.filing.case_script import run

raise SystemExit(run({case!r}, {backend!r}, {fingerprint!r}))
"""
ROOT = Path(str(files("difftest"))).parent
SHOWN, ABSENT, INCONCLUSIVE = 0, 1, 2


def script(finding: Finding, case: Case) -> str:
    """The script that runs `case` and looks for `finding`."""
    return TEXT.format(
        case=case.to_json(), backend=finding.divergence.backend, fingerprint=finding.fingerprint
    )


def requirement(root: Path = ROOT) -> tuple[str, str]:
    """The installer's additional arguments, which the script needs.

    `UsageError` when difftest was not installed from a checkout.
    """
    if not (root / "pyproject.toml").is_file():
        msg = (
            f"{str(root)!r} is not a checkout of difftest, which a case needs to run in another environment; "
            "run `difftest reproducer` and bisect the script that it writes"
        )
        raise UsageError(msg)
    return "-e", str(root)


def run(text: bytes, backend: str, fingerprint: str) -> int:
    """Runs the case in `text` here, beside the oracle, and prints what it shows first.

    Returns the exit status: `SHOWN`, `ABSENT`, or `INCONCLUSIVE` when it shows something else or cannot be
    run.
    """
    from workers.backends import candidates

    case, backends = Case.from_json(text), candidates((backend,))
    if reason := backends[backend].unsupported(case):
        click.echo(f"{backend} does not support case {case.id}: {reason}")
        return INCONCLUSIVE
    campaign = Campaign(
        name="script",
        backends=backends,
        execute=here,
        corpus=Corpus(Path("corpus")),
    )
    shown = rerun_for(campaign, case, backend, fingerprint)
    click.echo(f"case {case.id} on {backend}: {shown or 'inconclusive'}")
    return {fingerprint: SHOWN, AGREES: ABSENT}.get(shown, INCONCLUSIVE)
