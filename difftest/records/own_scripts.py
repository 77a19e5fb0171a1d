"""Which reproducers difftest wrote and ran for this user.

Whoever made a corpus can write anything into it, so this is kept outside of every corpus: in the folder
`difftest/scripts` of the user's state, `$XDG_STATE_HOME` or `~/.local/state`. A script has one file there.
Its name is a digest of the finding's fingerprint and the script, and it holds the digest of what the script
printed when it was run.
"""

import hashlib

from difftest.errors import InfrastructureError
from difftest.records.disk import replace_file
from difftest.state_folder import state_folder


def remember(fingerprint: str, script: str, output: str) -> None:
    """Records that difftest wrote `script` for a finding, and ran it, and that it printed `output`.

    `InfrastructureError` where the folder cannot be written.
    """
    folder = state_folder("scripts")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / _digest(fingerprint, script), _digest(output).encode())
    except OSError as error:
        msg = (
            f"cannot write to {str(folder)!r}: {error.strerror}; later commands will not know that difftest "
            "wrote this script; name a folder that can be written in the variable XDG_STATE_HOME"
        )
        raise InfrastructureError(msg) from error


def is_own(fingerprint: str, script: str) -> bool:
    """Whether difftest wrote `script` for this finding, and ran it, for this user."""
    return bool(_printed(fingerprint, script))


def has_printed(fingerprint: str, script: str, output: str) -> bool:
    """Whether `script` is difftest's own, and `output` is what it printed when it was last run."""
    return _printed(fingerprint, script) == _digest(output)


def _printed(fingerprint: str, script: str) -> str:
    """The digest of what a script printed; empty for one that is not difftest's own."""
    try:
        return (state_folder("scripts") / _digest(fingerprint, script)).read_text()
    except (OSError, UnicodeError):  # no such file, or a folder that may not be read
        return ""


def _digest(*texts: str) -> str:
    """One SHA-256 of several texts, each of which is hashed first, so that their borders count."""
    whole = b"".join(hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in texts)
    return hashlib.sha256(whole).hexdigest()
