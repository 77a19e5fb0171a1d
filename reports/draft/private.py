"""What must not leave the machine with a draft.

That is the folders of its user, the names of user and machine, and passwords in URLs.

Logs come from other machines too, so folders are recognised by their form, too, and not only as those of this
machine.
"""

import getpass
import re
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from difftest.ground.credentials import without_url_passwords

ROOT = Path(__file__).parents[2]
PACKAGES = "difftest|generators|reports|workers"
GENERIC = frozenset({"root", "localhost"})
"""Names that identify nobody, and that texts contain as words."""

_START = r"(?:(?<![\w.~-])|(?<=-[BIL]))"
"""Where an absolute path may begin: also after a compiler's options."""

_PART = r"[^/\s\"'`:,;()<>\[\]]+"
_WITHIN = rf"(?:(?<=File \")[^\"\n]*/|{_START}(?:/{_PART})*/)"
"""The folders above something. In a traceback they are quoted, and may have any name."""

_FOLDERS = (
    (re.compile(rf"{_WITHIN}(?:site|dist)-packages/"), ""),
    (re.compile(rf"{_WITHIN}(?=(?:{PACKAGES})/(?:\w+/)*\w+\.py\b)"), ""),
)
_PLACES = (
    (re.compile(rf"{_START}(?:/var)?/tmp/{_PART}"), "/tmp/..."),  # noqa: S108  it is only text
    (re.compile(rf"{_START}/(?:home|Users)/{_PART}"), "~"),
    (re.compile(rf"{_START}/root(?![\w.-])"), "~"),
)


def places(text: str) -> str:
    """`text` without the folders of one machine.

    Files of packages keep their path in the package; a home becomes `~`, a temporary folder `/tmp/...`.
    """
    for pattern, word in (*_FOLDERS, *_here(str(ROOT), tempfile.gettempdir(), str(Path.home())), *_PLACES):
        text = pattern.sub(word, text)
    return text


def shared(text: str) -> str:
    """`text` that anybody may read: without `places`, names of this user and machine, and URLs' passwords."""
    text = places(without_url_passwords(text))
    for pattern, word in _names(_user(), socket.gethostname()):
        text = pattern.sub(word, text)
    return text


def _user() -> str:
    """The user's name; empty where there is none, as in a container."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""


@cache
def _here(root: str, temporary: str, home: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The folders of this machine, which may be anywhere.

    The checkout comes first, as it may lie in the others.
    """
    checkout = ((rf"{re.escape(root)}/", ""), (rf"{re.escape(root)}(?![\w.-])", "."))
    temporary_file = (rf"{re.escape(temporary)}/{_PART}", "/tmp/...")  # noqa: S108  it is only text
    elsewhere = (temporary_file, (rf"{re.escape(home)}(?![\w.-])", "~"))
    return tuple((re.compile(_START + pattern), word) for pattern, word in (*checkout, *elsewhere))


@cache
def _names(user: str, host: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns for the names of user and machine, with what replaces them.

    A user's name may be a word, so it counts only in a path or before `@`. A machine's name counts anywhere,
    with its domain.
    """
    patterns = _patterns(user, host)
    return tuple((re.compile(pattern), word) for pattern, word in patterns)


def _patterns(user: str, host: str) -> Iterator[tuple[str, str]]:
    short = host.partition(".")[0]
    if short and short not in GENERIC:
        yield rf"(?<![\w./-]){re.escape(short)}(?:\.[\w-]+)*(?![\w-])", "host"
    if user and user not in GENERIC:
        yield rf"(?<=/){re.escape(user)}(?![\w-])|(?<![\w-]){re.escape(user)}(?=@)", "user"
