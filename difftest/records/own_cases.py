"""Which findings this user's own campaigns made, and which users' modules were run: entries by digest.

The script of a finding, and the source of a module, run with the user's rights. What somebody else made runs
only after the user agreed (`difftest.jobs.ask.consent`).
"""

from difftest.cases.case import Case
from difftest.cases.layers.own import Own
from difftest.records import remembered


def remember_finding(fingerprint: str, case: Case) -> None:
    """Records that a finding with this case is the user's own; `InfrastructureError` where that fails."""
    remembered.remember("findings", fingerprint, case.to_json().decode())


def is_own_finding(fingerprint: str, case: Case) -> bool:
    """Whether a finding with this case is the user's own."""
    return remembered.remembered("findings", fingerprint, case.to_json().decode()) is not None


def remember_module(layer: Own) -> None:
    """Records that the user ran a module with these files; `InfrastructureError` where that fails."""
    remembered.remember("models", *_content(layer))


def is_own_module(layer: Own) -> bool:
    """Whether the user ran a module with these files before, or agreed to run it."""
    return remembered.remembered("models", *_content(layer)) is not None


def _content(layer: Own) -> tuple[str, ...]:
    """What is called, and the digests of the files."""
    return (layer.source, *(f"{name} {content}" for name, content in sorted(layer.files.items())))
