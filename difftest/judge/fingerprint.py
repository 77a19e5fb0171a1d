"""The fingerprint of a fault: the one place that builds its text and reads it.

The text is `backend-check-symptom-digest`, such as `xla_spmd-gradients-mismatch-0a1b2c3d`. The backend may be
in an environment of its own, `xla_spmd@2.8`. Findings' folders, ledgers and observations hold the text.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from difftest.ground.plugins import ENVIRONMENT, IN, plain
from difftest.judge.outcome import Symptom

DIGEST_LENGTH = 8
SEPARATOR = "-"
FAILURES = frozenset({Symptom.EXCEPTION, Symptom.CAPABILITY, Symptom.CRASH, Symptom.HANG})
"""The symptoms of a run that does not finish."""

_TEXT = re.compile(
    rf"(?P<backend>[a-z0-9_]+(?:{IN}{ENVIRONMENT})?)-(?P<check>[a-z0-9_]+)-(?P<symptom>[a-z0-9_]+)"
    rf"-(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}})"
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What identifies a fault; `str` gives its text. `digest` is hexadecimal."""

    backend: str
    check: str
    symptom: str
    digest: str

    @classmethod
    def of(cls, backend: str, check: str, symptom: str, identity: Iterable[str]) -> Self:
        """The fingerprint of a fault that `identity` distinguishes within its backend, check and symptom.

        The digest does not depend on the backend's environment.
        """
        text = "\n".join((plain(backend), check, symptom, *identity))
        digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
        return cls(backend, check, symptom, digest)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The fingerprint with this text; None where it is not one."""
        matched = _TEXT.fullmatch(text)
        return cls(**matched.groupdict()) if matched else None

    def without_environment(self) -> Self:
        """The fingerprint of the same fault in this program's own environment."""
        return replace(self, backend=plain(self.backend))

    def __str__(self) -> str:
        return SEPARATOR.join((self.backend, self.check, self.symptom, self.digest))


def readable(text: str) -> str:
    """A fingerprint as people read it: of a failure, whose symptom says everything, without the check.

    `xla_spmd-crash-0a1b2c3d` names the finding that is stored with the check between backend and symptom.
    """
    whole = Fingerprint.parse(text)
    if whole is None or whole.symptom not in FAILURES:
        return text
    return SEPARATOR.join((whole.backend, whole.symptom, whole.digest))


def backend_pattern(pattern: str) -> str:
    """The backend's part of a pattern for fingerprints: the text before the first separator."""
    return pattern.partition(SEPARATOR)[0]
