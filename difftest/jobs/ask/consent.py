"""Consent to run what somebody else may have made: scripts, findings, and modules of users.

A corpus, a bundle or a working directory can come from anybody. What difftest did for this user before, it
does again without a question (`difftest.records.remembered`).
"""

import sys
from collections.abc import Callable

import click

from difftest.cases.layers.own import Own
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.targets import FindingTarget
from difftest.records import own_cases


def require_consent(whose: str, *, trust: bool, instead: str = "") -> None:
    """Asks on a terminal whether to run something; `UsageError` where the answer is no or nobody can answer.

    `whose` says what it is, and `instead` what else the user can do.
    """
    if trust or (sys.stdin.isatty() and sys.stderr.isatty() and click.confirm(f"{whose}. Run it?", err=True)):
        return
    msg = f"{whose}; read it, and give --trust to run it{instead}"
    raise UsageError(msg)


def require_own_finding(subject: FindingTarget, *, trust: bool = False) -> None:
    """Asks before a script of a finding is run that none of this user's campaigns made."""
    fingerprint, case = subject.finding.fingerprint, subject.case
    if not own_cases.is_own_finding(fingerprint, case):
        whose = (
            f"{str(subject.folder)!r} is not a finding that difftest made for you, or its case was changed"
        )
        require_consent(f"{whose}: its script would run here", trust=trust)
        noted(lambda: own_cases.remember_finding(fingerprint, case))


def require_own_module(layer: Own, *, trust: bool = False) -> None:
    """Asks before a user's module is run that this user never ran; a model by name is nobody's code."""
    if not layer.recipe and not own_cases.is_own_module(layer):
        files = ", ".join(sorted(layer.files))
        whose = f"the case runs {layer.source} of the working directory, which you never ran ({files})"
        require_consent(whose, trust=trust)
        noted(lambda: own_cases.remember_module(layer))


def noted(remember: Callable[[], None]) -> None:
    """Remembers something; where that fails, says so."""
    try:
        remember()
    except InfrastructureError as error:
        click.echo(f"difftest: {error}", err=True)
