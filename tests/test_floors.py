"""The rules of the house, by reading every file: who may import whom, one heavy dependency a package, nothing oversized."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("difftest", "generators", "workers", "reports")
MOST_LINES = 320
MOST_FUNCTION_LINES = 45

FLOORS = (
    ("difftest.errors",),
    (
        "difftest.plugins",
        "difftest.findings.bisect",
        "difftest.records.read_limits",
        "difftest.installed",
        "difftest.cases.layout",
        "difftest.cases.layers",
        "difftest.cases.options",
    ),
    ("difftest.cases.model",),
    ("difftest.cases.case", "difftest.judge.outcome"),
    ("difftest.cases.numbers", "difftest.judge.divergence", "difftest.judge.noise", "difftest.records.traces"),
    ("difftest.cases.exactness", "difftest.judge.damage", "difftest.records.corpus", "difftest.reduce", "difftest.findings.ablations"),
    ("difftest.judge.measured", "difftest.records.bundle", "difftest.records.resume"),
    ("difftest.judge.checks", "difftest.judge.comparator", "difftest.judge.blame"),
    ("difftest.campaign.case_run",),
    ("difftest.campaign.memo", "difftest.campaign.again"),
    ("difftest.campaign.new_finding", "difftest.findings.ledger", "difftest.findings.localise"),
    ("difftest.campaign", "difftest.findings.triage", "difftest.findings.ablate"),
    ("difftest.support", "difftest.selftest"),
    ("generators", "workers", "reports"),
    ("difftest.commands", "difftest.cli"),
    ("difftest.__main__",),
)
"""Lowest first. What stands on one floor does not import one another; a folder's own files may."""

OWNERS = {
    "hypothesis": {"generators"},
    "ray": {"workers"},
    "torch": {"workers"},
    "torch_xla": {"workers"},
    "torchax": {"workers"},
    "jax": {"workers"},
    "pandas": {"reports"},
    "pyarrow": {"reports"},
    "jinja2": {"reports"},
    "click": {"difftest"},
    "tqdm": {"difftest"},
    "psutil": {"difftest"},
    "numpy": {"difftest", "workers", "reports"},
    "msgspec": set(PACKAGES),
}

FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
files = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))


def module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports anywhere, type checking and functions included."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=source, names=names, level=0) if source:
                yield from (f"{source}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                pytest.fail(f"{file} imports relatively")


def place(name: str) -> tuple[int, str] | None:
    """The floor of a module and the entry that stands for it there; None for what is not ours."""
    standing = ((number, entry) for number, floor in enumerate(FLOORS) for entry in floor)
    return next(((number, entry) for number, entry in standing if f"{name}.".startswith(f"{entry}.")), None)


@files
def test_imports_point_down_or_stay_inside_a_folder(file: Path) -> None:
    if file == ROOT / "difftest" / "__init__.py":
        assert not list(imports(file))
        return
    mine = place(module(file))
    assert mine, f"{module(file)} stands on no floor; give it one in FLOORS"
    for name in imports(file):
        theirs = place(name)
        assert theirs or name == "difftest.__version__" or name.partition(".")[0] not in PACKAGES, f"{name} stands on no floor"
        if theirs:
            assert theirs[0] < mine[0] or theirs[1] == mine[1], f"{module(file)} imports {name}, which is not below it"


@files
def test_a_heavy_dependency_is_used_by_its_packages_only(file: Path) -> None:
    package = module(file).partition(".")[0]
    for name in imports(file):
        top = name.partition(".")[0]
        assert package in OWNERS.get(top, {package}), f"{package} imports {top}; only {OWNERS[top]} may"


@files
def test_every_module_says_what_it_owns(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text())), f"{file} has no docstring"


@files
def test_no_file_and_no_function_is_too_long(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno
            assert node.end_lineno - node.lineno < MOST_FUNCTION_LINES, f"{node.name} has {node.end_lineno - node.lineno + 1} lines"


def test_every_module_of_difftest_has_a_floor_of_its_own() -> None:
    entries = [entry for floor in FLOORS for entry in floor]
    assert len(entries) == len(set(entries))
    for entry in entries:
        path = ROOT.joinpath(*entry.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{entry} is in FLOORS and nowhere else"
