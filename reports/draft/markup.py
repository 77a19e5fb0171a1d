"""Text from runs and logs as a draft may hold it: without active markup, mentions or anything private."""

import re

from reports.draft import private

CODE = ("json", "python")
MOST_TEXT = 12_000
"""The most characters of a block; the middle of a longer text is left out."""


MOST_HEAD, MOST_TAIL = 4, 12
"""The lines of a log's beginning and end that are kept."""


def cut(text: str) -> str:
    """The beginning and the end of a log, with how many lines between them were left out."""
    lines = text.rstrip().splitlines()
    left_out = len(lines) - MOST_HEAD - MOST_TAIL
    if left_out <= 1:
        return "\n".join(lines)
    return "\n".join((*lines[:MOST_HEAD], f"... {left_out} lines left out ...", *lines[-MOST_TAIL:]))


def code(text: object) -> str:
    """Text in one line as code, without what is private: nothing in it is markup."""
    line = " ".join(private.shared(str(text)).split()).replace("`", "'")
    return f"`{line}`"


def fenced(text: str, language: str = "") -> str:
    """Text as a code block, whose fence is longer than any run of backticks within.

    What is private is removed; from code, which must run as it stands, only the folders of this machine are.
    """
    text = private.places(text) if language in CODE else private.shared(text)
    if len(text) > MOST_TEXT:
        half, left_out = MOST_TEXT // 2, len(text) - MOST_TEXT
        text = f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def plain(text: object) -> str:
    """Text in one line, without what is private, and with all escaped that Markdown or a tracker acts on.

    That is markup, tables, mentions of people and numbers of issues.
    """
    line = " ".join(private.shared(str(text)).split())
    escaped = re.sub(r"([\\`*_\[\]<>|])", r"\\\1", line)
    return re.sub(r"[@#](?=\w)", lambda match: match[0] + "\u200b", escaped)


def prose(text: object) -> str:
    """As `plain`, but what stands between two backticks is code."""
    parts = " ".join(str(text).split()).split("`")
    if len(parts) % 2 == 0 or not all(part.strip() for part in parts[1::2]):
        return plain(text)
    return "".join(code(part) if number % 2 else _around(part) for number, part in enumerate(parts))


def _around(text: str) -> str:
    """`text` beside code, with the spaces that separate it."""
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before}{plain(text)}{after}" if text.strip() else text
