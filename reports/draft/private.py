"""What must not leave the machine with a draft: where its user keeps things, and what user and machine are called.

Logs come from other machines too, so that folders are told by their form beside those of this one.
"""

import getpass
import re
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = "difftest|generators|reports|workers"
GENERIC = frozenset({"root", "localhost"})
"""Names that tell nobody from another, and that texts have as words."""

_START = r"(?:(?<![\w.~-])|(?<=-[BIL]))"
"""Where an absolute path may begin: also after a compiler's options."""

_PART = r"[^/\s\"'`:,;()<>\[\]]+"
_WITHIN = rf"(?:(?<=File \")[^\"\n]*/|{_START}(?:/{_PART})*/)"
"""The folders above something; in a traceback they are quoted, and may have any name."""

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
    """`text` without the folders of one machine: packages' files by their own names, `~` for a home, `/tmp/...` for what is temporary."""
    for pattern, word in (*_FOLDERS, *_here(str(ROOT), tempfile.gettempdir(), str(Path.home())), *_PLACES):
        text = pattern.sub(word, text)
    return text


def shared(text: str) -> str:
    """`text` as it may be shown to anybody: without `places`, and without the names of this user and this machine."""
    text = places(text)
    for pattern, word in _names(_user(), socket.gethostname()):
        text = pattern.sub(word, text)
    return text


def _user() -> str:
    """The user's name; empty where the machine knows none, as in a container."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""


@cache
def _here(root: str, temporary: str, home: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The folders of this machine, which may be anywhere; the checkout first, for it may lie in the others."""
    known = ((rf"{re.escape(root)}/", ""), (rf"{re.escape(root)}(?![\w.-])", "."))
    elsewhere = ((rf"{re.escape(temporary)}/{_PART}", "/tmp/..."), (rf"{re.escape(home)}(?![\w.-])", "~"))  # noqa: S108  it is only text
    return tuple((re.compile(_START + pattern), word) for pattern, word in (*known, *elsewhere))


@cache
def _names(user: str, host: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """A user's name where it is one, as in a path or before `@`, for it may be a word too; a machine's name with its domain, anywhere."""
    patterns = _patterns(user, host)
    return tuple((re.compile(pattern), word) for pattern, word in patterns)


def _patterns(user: str, host: str) -> Iterator[tuple[str, str]]:
    short = host.partition(".")[0]
    if short and short not in GENERIC:
        yield rf"(?<![\w./-]){re.escape(short)}(?:\.[\w-]+)*(?![\w-])", "host"
    if user and user not in GENERIC:
        yield rf"(?<=/){re.escape(user)}(?![\w-])|(?<![\w-]){re.escape(user)}(?=@)", "user"
