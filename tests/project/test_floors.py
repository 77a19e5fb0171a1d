"""The rules of the code, checked by reading every file.

The packages and folders that may import each other, the packages that may use a heavy dependency, and sizes.
"""

import ast
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from rooms import FLOORS, INNER_FLOORS, PACKAGES, ROOT, source_files

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

API = (
    "difftest.api",
    "difftest.runs.compare",
    "importlib.import_module",
    "sys",
    "types.ModuleType",
    "typing.TYPE_CHECKING",
    "workers.runs.recorder",
)
"""What the package itself imports: its Python API, when that is first used."""

FILES = source_files()


def module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Every module that a file imports anywhere, type checking and functions included."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
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


@pytest.mark.long
def test_imports_point_down_or_stay_inside_a_room() -> None:
    wrong = []
    for file in FILES:
        mine = place(module(file))
        if file == ROOT / "difftest" / "__init__.py":
            others = (name for name in imports(file) if not name.startswith(API))
            wrong += [f"difftest imports {name}; it is the package alone" for name in others]
            continue
        assert mine, f"{module(file)} is in no room; give it one in FLOORS"
        for name in imports(file):
            theirs = place(name)
            if theirs is None:
                foreign = name == "difftest.__version__" or name.partition(".")[0] not in PACKAGES
                wrong += [] if foreign else [f"{module(file)} imports {name}, which is in no room"]
            elif theirs[0] >= mine[0] and theirs[1] != mine[1]:
                wrong.append(f"{module(file)} imports {name}, which is not below it")
    assert not wrong


def circle(graph: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Modules of which each imports the next, and the last is the first; empty where there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


@pytest.mark.long
def test_no_modules_import_one_another_in_a_circle() -> None:
    """Also not inside a room, in a function or for types alone."""
    package_alone = ROOT / "difftest" / "__init__.py"
    own = {module(file): file for file in FILES if file != package_alone}
    graph = {
        name: {each if each in own else each.rpartition(".")[0] for each in imports(file)} - {name}
        for name, file in own.items()
    }
    assert not circle(graph)


def test_a_circle_is_named_in_the_order_of_its_imports() -> None:
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}) in (
        ["b", "c", "d", "b"],
        ["c", "d", "b", "c"],
        ["d", "b", "c", "d"],
    )
    assert not circle({"a": {"b", "c"}, "b": {"c"}})


FORBIDDEN = {"workers": ("difftest.judge.checks", "difftest.findings.ablations")}
"""The modules that a package must not import although they lie below it.

A worker runs cases and does not judge them.
"""


def test_workers_import_no_checks_and_no_ablations() -> None:
    wrong = [
        f"{module(file)} imports {name}"
        for file in FILES
        for entry in FORBIDDEN.get(module(file).partition(".")[0], ())
        for name in imports(file)
        if f"{name}.".startswith(f"{entry}.")
    ]
    assert not wrong


def inner_place(name: str) -> tuple[str, int, str] | None:
    """The package with floors of its own, the floor inside it, and the folder or module there."""
    package = next((each for each in INNER_FLOORS if name.startswith(f"{each}.")), "")
    room = name.removeprefix(f"{package}.").partition(".")[0]
    floors = enumerate(INNER_FLOORS.get(package, ()))
    return next(((package, number, room) for number, floor in floors if room in floor), None)


def test_inside_a_package_imports_point_down_or_stay_inside_a_folder() -> None:
    wrong = []
    for file in FILES:
        if not module(file).startswith(tuple(f"{package}." for package in INNER_FLOORS)):
            continue
        mine = inner_place(module(file))
        assert mine, f"{module(file)} is on no floor of its package; give it one in INNER_FLOORS"
        for name in imports(file):
            theirs = inner_place(name)
            if theirs and theirs[0] == mine[0] and theirs[1] >= mine[1] and theirs[2] != mine[2]:
                wrong.append(f"{module(file)} imports {name}, which is not below it")
    assert not wrong


def test_the_floors_inside_a_package_name_all_its_modules() -> None:
    for package, floors in INNER_FLOORS.items():
        names = [name for floor in floors for name in floor]
        assert len(names) == len(set(names))
        folder = ROOT.joinpath(*package.split("."))
        inside = {file.relative_to(folder).parts[0] for file in folder.rglob("*.py")}
        assert set(names) == {name.removesuffix(".py") for name in inside} - {"__init__"}


def test_a_heavy_dependency_is_used_by_its_packages_only() -> None:
    wrong = []
    for file in FILES:
        package = module(file).partition(".")[0]
        tops = {name.partition(".")[0] for name in imports(file)}
        foreign = [top for top in tops if package not in OWNERS.get(top, {package})]
        wrong += [f"{module(file)} imports {top}; only {OWNERS[top]} may" for top in foreign]
    assert not wrong


def test_every_module_says_what_it_owns() -> None:
    assert not [module(file) for file in FILES if not ast.get_docstring(tree(file))]


def test_no_function_is_too_long() -> None:
    wrong = []
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                wrong += [f"{node.name} has {length} lines"] if length > MOST_FUNCTION_LINES else []
    assert not wrong


def test_every_room_has_its_modules_and_only_the_door_lies_outside_rooms() -> None:
    entries = [entry for floor in FLOORS for room in floor.values() for entry in room]
    assert len(entries) == len(set(entries))
    for entry in entries:
        path = ROOT.joinpath(*entry.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{entry} is in FLOORS and nowhere else"
    beside = {f"difftest.{file.stem}" for file in (ROOT / "difftest").glob("*.py")} - {"difftest.__init__"}
    assert beside == {*FLOORS[-1]["door"]}
