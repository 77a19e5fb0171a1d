"""Sentences over which readers stumbled do not come back."""

import re

from pages import ROOT

SENTENCES = (
    "alone of its type",
    "annotates the last alone",
    "all that follows but replay",
    "a person has to read it",
    "a table of what agrees with what",
    "axes that cut one dim",
    "as they were before the reduction",
    "breaks the backward passes after it",
    "cannot express it",
    r"crontab FILE",
    r"default: \(",
    "fails in any dtype",
    "for the second XLA alone",
    "forgets its epsilon",
    "is a floating-point number",
    "only take CPU time",
    "The ledger knows every cause",
    "The result of eager torch on the CPU, as on one device",
    "to run beside it",
    "Two commands",
    r"pip install 'difftest\[",
)
"""What these pages, messages and titles once said."""

READ = ("difftest", "generators", "workers", "reports", "docs", ".github")
TEXTS = frozenset({".py", ".md", ".toml", ".jinja", ".html", ".yml", ".yaml", ".ipynb", ".js"})


def test_sentences_that_were_replaced_stand_nowhere() -> None:
    files = [file for folder in READ for file in (ROOT / folder).rglob("*") if file.suffix in TEXTS]
    files += [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "mkdocs.yml")]
    assert len(files) > len(READ)
    former = re.compile("|".join(SENTENCES))
    assert not {
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in files
        if (found := former.search(file.read_text()))
    }
