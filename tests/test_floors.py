"""The rules of the code, checked by reading every file.

The packages and folders that may import each other, the packages that may use a heavy dependency, and sizes.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from rooms import FLOORS, INNER_FLOORS, PACKAGES, ROOT

MOST_LINES = 300
MOST_FUNCTION_LINES = 45

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
    """The floor and the room of a module; None for a module of another project."""
    standing = (
        (number, room, entry)
        for number, floor in enumerate(FLOORS)
        for room, entries in floor.items()
        for entry in entries
    )
    return next(
        ((number, room) for number, room, entry in standing if f"{name}.".startswith(f"{entry}.")), None
    )


@files
def test_imports_point_down_or_stay_inside_a_folder(file: Path) -> None:
    if file == ROOT / "difftest" / "__init__.py":
        assert not list(imports(file))
        return
    mine = place(module(file))
    assert mine, f"{module(file)} is in no room; give it one in FLOORS"
    for name in imports(file):
        theirs = place(name)
        assert theirs or name == "difftest.__version__" or name.partition(".")[0] not in PACKAGES, (
            f"{name} is in no room"
        )
        if theirs:
            assert theirs[0] < mine[0] or theirs[1] == mine[1], (
                f"{module(file)} imports {name}, which is not below it"
            )


FORBIDDEN = {"workers": ("difftest.judge.checks", "difftest.findings.ablations")}
"""The modules that a package must not import although they lie below it.

A worker runs cases and does not judge them.
"""


@files
def test_workers_import_no_checks_and_no_ablations(file: Path) -> None:
    forbidden = FORBIDDEN.get(module(file).partition(".")[0], ())
    wrong = {name for name in imports(file) for entry in forbidden if f"{name}.".startswith(f"{entry}.")}
    assert not wrong


def inner_place(name: str) -> tuple[str, int, str] | None:
    """The package, the floor inside it, and the folder or module, of a module below a package."""
    package, _, rest = name.partition(".")
    room = rest.partition(".")[0]
    floors = enumerate(INNER_FLOORS.get(package, ()))
    return next(((package, number, room) for number, floor in floors if room in floor), None)


@files
def test_inside_a_package_imports_point_down_or_stay_inside_a_folder(file: Path) -> None:
    mine, (package, _, rest) = inner_place(module(file)), module(file).partition(".")
    if package not in INNER_FLOORS or not rest:
        return
    assert mine, f"{module(file)} is on no floor of its package; give it one in INNER_FLOORS"
    for name in imports(file):
        theirs = inner_place(name)
        if theirs and theirs[0] == mine[0]:
            assert theirs[1] < mine[1] or theirs[2] == mine[2], (
                f"{module(file)} imports {name}, which is not below it"
            )


def test_the_floors_inside_a_package_name_all_its_modules() -> None:
    for package, floors in INNER_FLOORS.items():
        names = [name for floor in floors for name in floor]
        assert len(names) == len(set(names))
        inside = {file.relative_to(ROOT / package).parts[0] for file in (ROOT / package).rglob("*.py")}
        assert set(names) == {name.removesuffix(".py") for name in inside} - {"__init__"}


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
            assert node.end_lineno - node.lineno < MOST_FUNCTION_LINES, (
                f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
            )


def test_every_room_has_its_modules_and_only_ground_and_door_lie_outside_rooms() -> None:
    entries = [entry for floor in FLOORS for room in floor.values() for entry in room]
    assert len(entries) == len(set(entries))
    for entry in entries:
        path = ROOT.joinpath(*entry.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{entry} is in FLOORS and nowhere else"
    beside = {f"difftest.{file.stem}" for file in (ROOT / "difftest").glob("*.py")} - {"difftest.__init__"}
    assert beside == {*FLOORS[0]["ground"], *FLOORS[-1]["door"]}
