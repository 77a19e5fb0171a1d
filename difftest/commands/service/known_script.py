"""The script that shows a known fault: that of the ledger's entry, which is in the checkout."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from difftest.commands.service.excerpt import excerpt, without_lint
from difftest.findings.faults import SCRIPTS, Fault, read_faults
from difftest.records.finding import Finding

CHECKOUT = Path(__file__).parents[3]
"""The folder that has the scripts; an installed wheel has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScript:
    """A script of `tests/upstream/` or a part of it, with the arguments that run the one fault alone."""

    text: str
    arguments: tuple[str, ...]


def known_script(finding: Finding, checkout: Path = CHECKOUT) -> KnownScript | None:
    """The script that the ledger names for a finding; None where it names none, or where it is not here.

    Only scripts of faults that difftest itself lists: a corpus may name any file. Of a script that shows
    several faults it is the part that shows this one.
    """
    fault = next((one for one in read_faults() if finding.upstream in one.upstream), None)
    if fault is None or not finding.upstream.startswith(SCRIPTS):
        return None
    name, *arguments = shlex.split(finding.upstream)
    return script_of(fault, tuple(arguments), checkout) if (checkout / name).is_file() else None


def script_on_jax(fault: Fault, checkout: Path = CHECKOUT) -> KnownScript:
    """The script that shows a fault of XLA with jaxlib alone, or the part of it for this fault."""
    name, *arguments = fault.on_jax.split()
    return _part(checkout / SCRIPTS / name, tuple(arguments), fault.title)


def script_of(fault: Fault, arguments: tuple[str, ...], checkout: Path = CHECKOUT) -> KnownScript:
    """The script of a listed fault, or the part of it for these of the fault's arguments."""
    return _part(checkout / SCRIPTS / fault.script, arguments, fault.title)


def _part(script: Path, arguments: tuple[str, ...], about: str) -> KnownScript:
    text = without_lint(script.read_text())
    part = excerpt(text, arguments, about) if arguments else None
    if part is not None:
        return KnownScript(text=part, arguments=())
    return KnownScript(text=text, arguments=arguments)
