"""The table of environment variables has the same names as the source."""

import re
from pathlib import Path

from difftest.ground import variables
from difftest.ground.variables import VARIABLES, as_markdown
from difftest.judge import noise

ROOT = Path(__file__).parents[2]
FOLDERS = ("difftest", "generators", "workers", "reports", "tests", ".github")
TABLE = Path(variables.__file__)
NAME = re.compile(rf"\b{variables.PREFIX}[A-Z_]*[A-Z]\b")
NEVER_READ = {"DIFFTEST_TEST_TOKEN"}
"""Tests set it to check that a secret is withheld from runs."""


def named_in_the_source() -> set[str]:
    """Return every name with the prefix in all text files except the table itself and this file."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()]
    readable = [file for file in files if file.suffix != ".pyc" and file not in (TABLE, Path(__file__))]
    return {name for file in readable for name in NAME.findall(file.read_text(errors="replace"))}


def test_the_table_has_exactly_the_variables_in_the_source() -> None:
    assert {variable.name for variable in VARIABLES} == named_in_the_source() - NEVER_READ


def test_the_readers_of_a_variable_exist() -> None:
    assert {variable.set_by for variable in VARIABLES} <= {"user", "difftest", "developer"}
    readers = {(variable.name, reader) for variable in VARIABLES for reader in variable.read_by}
    assert [(name, reader) for name, reader in sorted(readers) if not source(reader).is_file()] == []


def source(reader: str) -> Path:
    return ROOT / (reader if reader.endswith(".py") else f"{reader.replace('.', '/')}.py")


def test_the_defaults_in_the_table_are_those_of_the_code() -> None:
    defaults = {variable.name: variable.default for variable in VARIABLES}
    assert defaults[noise.SAMPLES_VARIABLE] == str(noise.SAMPLES)


def test_the_table_in_markdown_has_a_row_for_every_variable_in_alphabetical_order() -> None:
    header, rule, *rows = as_markdown().splitlines()
    assert header.startswith("| Variable | Default | Values | Meaning ")
    assert set(rule) <= set("| -")
    assert [row.split("`")[1] for row in rows] == sorted(variable.name for variable in VARIABLES)
    assert {row.count(" | ") for row in rows} == {len(variables.COLUMNS) - 1}
