"""Sentences over which readers stumbled do not come back."""

import re

from pages import ROOT

SENTENCES = (
    "a person has to read it",
    "a table of what agrees with what",
    "all that follows but replay",
    "alone of its type",
    "annotates the last alone",
    "are the fault of https",
    "as they were before the reduction",
    "axes that cut one dim",
    "breaks the backward passes after it",
    r"built larger, up to 20 million numbers",
    "by direction, by how their operands",
    "cannot express it",
    "Cases is the number of generated cases until",
    r"crontab FILE",
    r"default: \(",
    "fails in any dtype",
    "for the second XLA alone",
    "forgets its epsilon",
    "graph breaks of its own",
    "How many inputs a case has",
    "how much the known faults hide",
    r"infinities, or little but rounding",
    "is a floating-point number",
    "is condensed and packed",
    "is no environment here",
    "is there already: ",
    "Its tooltip says what its number stands for",
    "less what is no style of torch's",
    "modules if --paths names them",
    "None may end in exit status 0, but",
    "nor XLA's code generation, is at fault, or where",
    "Of what it returns the first floating-point tensor",
    "Only faults whose names contain this",
    "Only releases of this",
    "only take CPU time",
    r"pip install 'difftest\[",
    r"reached, and what they did not\.",
    "Right are a sum divided",
    "run what is missing of",
    "The ledger knows every cause",
    "The result of eager torch on the CPU, as on one device",
    "to run beside it",
    "Two commands",
    "What the time does not suffice",
    "What your files import at their top",
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
