"""Tracebacks as readers want them: without the frames of difftest, and the last line of a user's code."""

import re
from collections.abc import Collection

_LINE = re.compile(r'^ *File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)
_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]*)", line \d+.*\n(?:    +.*\n)*', re.MULTILINE)
_OWN = re.compile(
    r"(?:^|/)(?:generators|reports|workers|difftest/(?:campaign|cases|commands|ground|jobs|judge|records|runs))/"
)
"""Folders of difftest: a model of the user's may lie in a checkout, beside them."""


def without_own_frames(text: str) -> str:
    """A traceback without the frames of difftest's files, which say nothing of the fault."""
    return _FRAME.sub(lambda frame: "" if _own(frame["file"]) else frame[0], text)


def last_line(text: str, files: Collection[str]) -> str:
    """Where a traceback was last in one of these files, as `model.py:63 in forward`; empty for nowhere."""
    for frame in reversed([*_LINE.finditer(text)]):
        for name in files:
            if f"/{frame['file']}".endswith(f"/{name}"):
                return f"{name}:{frame['line']} in {frame['function']}"
    return ""


def _own(file: str) -> bool:
    _, installed, below = file.rpartition("site-packages/")
    return bool(_OWN.match(below) if installed else _OWN.search(file))
