"""What difftest did for this user, by digests, outside of every corpus: its maker can write anything into it.

Each entry is a file in the folder `scripts`, `findings` or `models` of the user's state, `$XDG_STATE_HOME` or
`~/.local/state`. Its name is a digest of what it is about.
"""

import hashlib
from typing import Literal, TypeAlias

from difftest.ground.errors import InfrastructureError
from difftest.ground.state_folder import state_folder
from difftest.records.disk import replace_file

Kind: TypeAlias = Literal["scripts", "findings", "models"]


def remember(kind: Kind, *about: str, content: str = "") -> None:
    """Keeps an entry; `InfrastructureError` where the folder cannot be written."""
    folder = state_folder(kind)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / digest(*about), content.encode())
    except OSError as error:
        msg = (
            f"cannot write to {str(folder)!r}: {error.strerror}; later commands will ask for consent again; "
            "name a folder that can be written in the variable XDG_STATE_HOME"
        )
        raise InfrastructureError(msg) from error


def remembered(kind: Kind, *about: str) -> str | None:
    """The content of an entry; None where there is none."""
    try:
        return (state_folder(kind) / digest(*about)).read_text()
    except (OSError, UnicodeError):  # no such file, or a folder that may not be read
        return None


def digest(*texts: str) -> str:
    """One SHA-256 of several texts, each of which is hashed first, so that their borders count."""
    whole = b"".join(hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in texts)
    return hashlib.sha256(whole).hexdigest()
