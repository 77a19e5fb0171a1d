"""The pages that users read, for the tests that compare them with the program: README.md and docs/."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRONT = ROOT / "README.md"
PAGES = (FRONT, *sorted((ROOT / "docs").glob("*.md")))
GUIDES = (*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
"""The pages for users, and those for contributors."""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in `language`."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def shell_commands(page: Path) -> list[str]:
    """The commands in a page's `sh` blocks, without comments; a line of several is split at `&&`."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [part.split("#")[0].strip() for line in lines for part in line.split("&&")]
