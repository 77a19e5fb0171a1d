"""Text from runs and logs as a draft may hold it: without active markup, mentions or anything private."""

import re

from reports.draft import private

CODE = ("json", "python")
MOST_TEXT = 12_000
"""The most characters of a block; the middle of a longer text is left out."""


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
