"""Which reproducers difftest wrote and ran for this user: the entries `scripts` of `records.remembered`.

An entry is about a finding's fingerprint and a script, and holds the digest of what the script printed when
it was run.
"""

from difftest.records import remembered


def remember(fingerprint: str, script: str, output: str) -> None:
    """Records that difftest wrote `script` for a finding, and ran it, and that it printed `output`.

    `InfrastructureError` where the folder cannot be written.
    """
    remembered.remember("scripts", fingerprint, script, content=remembered.digest(output))


def is_own(fingerprint: str, script: str) -> bool:
    """Whether difftest wrote `script` for this finding, and ran it, for this user."""
    return bool(remembered.remembered("scripts", fingerprint, script))


def has_printed(fingerprint: str, script: str, output: str) -> bool:
    """Whether `script` is difftest's own, and `output` is what it printed when it was last run."""
    return remembered.remembered("scripts", fingerprint, script) == remembered.digest(output)
