"""Tracebacks as readers want them: those frames that are not difftest's own."""

import re

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]*)", line \d+.*\n(?:    +.*\n)*', re.MULTILINE)
_OWN = re.compile(
    r"(?:^|/)(?:generators|reports|workers|difftest/(?:campaign|cases|commands|ground|jobs|judge|records|runs))/"
)
"""Folders of difftest: a model of the user's may lie in a checkout, beside them."""


def without_own_frames(text: str) -> str:
    """A traceback without the frames of difftest's files, which say nothing of the fault."""
    return _FRAME.sub(lambda frame: "" if _own(frame["file"]) else frame[0], text)


def _own(file: str) -> bool:
    _, installed, below = file.rpartition("site-packages/")
    return bool(_OWN.match(below) if installed else _OWN.search(file))
