"""A finding's case as a script: what `difftest bisect` asks a version by where the finding has no reproducer.

The script needs this project in the version's environment, and so this project's checkout; beside that it is like any other script: it
exits 0 where the fault is and 1 where the case agrees with the oracle.
"""

from pathlib import Path

import click

from difftest.campaign.again import AGREES, first_shown
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.errors import UsageError
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

TEXT = """\
from difftest.commands.service.case_script import replayed

raise SystemExit(replayed({case!r}, {backend!r}, {fingerprint!r}))
"""
ROOT = Path(__file__).parents[3]
SHOWN, ABSENT, OTHERWISE = 0, 1, 2


def script(finding: Finding, case: Case) -> str:
    """The script that replays `case` and looks for `finding`."""
    return TEXT.format(
        case=case.to_json(), backend=finding.divergence.backend, fingerprint=finding.fingerprint
    )


def requirement(root: Path = ROOT) -> tuple[str, str]:
    """What an installer is told besides, so that the script runs; `UsageError` where this project was not installed from a checkout."""
    if not (root / "pyproject.toml").is_file():
        msg = f"{str(root)!r} is no checkout of difftest, which replaying a case in another environment needs; write its reproducer"
        raise UsageError(msg)
    return "-e", str(root)


def replayed(text: bytes, backend: str, fingerprint: str) -> int:
    """Runs a case here, beside the oracle, and tells what it shows first; the exit status that bisection understands."""
    from workers.backends import candidates
    from workers.isolate import sandbox

    case, backends = Case.from_json(text), candidates((backend,))
    if reason := backends[backend].unsupported(case):
        click.echo(f"{backend} does not support case {case.id}: {reason}")
        return OTHERWISE
    campaign = Campaign(
        name="replayed",
        backends=backends,
        execute=lambda case, name, options: sandbox.run(case, name, options=options),
        corpus=Corpus(Path("corpus")),
    )
    seen = first_shown(campaign, case, backend, fingerprint)
    click.echo(f"case {case.id} on {backend}: {seen or 'no telling'}")
    return {fingerprint: SHOWN, AGREES: ABSENT}.get(seen, OTHERWISE)
