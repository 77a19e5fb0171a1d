"""Text from runs, logs and corpora as a terminal may get it."""

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What terminals obey instead of showing it, what reverses the direction of writing, and half characters.

Tabs and the ends of lines are kept.
"""


def printable(text: str) -> str:
    """`text` with its control characters as Python spells them."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
