"""The script that shows a known fault: that of the ledger's entry, which is in the checkout."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from difftest.findings.faults import SCRIPTS, read_faults
from difftest.records.finding import Finding

CHECKOUT = Path(__file__).parents[3]
"""The folder that has the scripts; an installed wheel has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScript:
    """A script of `tests/upstream/`, with the arguments that run the one fault alone."""

    text: str
    arguments: tuple[str, ...]


def known_script(finding: Finding, checkout: Path = CHECKOUT) -> KnownScript | None:
    """The script that the ledger names for a finding; None where it names none, or where it is not here.

    Only scripts of faults that difftest itself lists: a corpus may name any file.
    """
    if not any(finding.upstream in fault.upstream for fault in read_faults()):
        return None
    if not finding.upstream.startswith(SCRIPTS):
        return None
    name, *arguments = shlex.split(finding.upstream)
    script = checkout / name
    return KnownScript(text=script.read_text(), arguments=tuple(arguments)) if script.is_file() else None
