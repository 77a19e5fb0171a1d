"""A file from elsewhere is data.

Nothing named in it is imported, executed, or looked up anywhere but in a list of allowed names.
"""

import ast
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from samples import DEEP, a_case

from difftest.cases.case import Case
from difftest.ground import plugins
from difftest.ground.errors import UsageError

ROOT = Path(__file__).parents[2]
PACKAGES = ("difftest", "generators", "workers", "reports")
NAMES = ("os.system", "__import__('os').system('true')", "../../etc/passwd", "__class__", "relu\x00", "")
PLUGINS = (
    "workers.backends",
    "workers.faults",
    "generators.paths",
    "difftest.judge.checks",
    "difftest.commands",
    "reports.formats",
)
FREE = {"path"}
"""Fields of a case that may hold any name.

Its path is a label; test_sandbox runs a case whose path is the name of a module.
"""

Where: TypeAlias = tuple[Any, ...]


def words(tree: Any, where: Where = ()) -> Iterator[Where]:  # noqa: ANN401  JSON
    """Yield the places of all strings in a JSON tree."""
    if isinstance(tree, str):
        yield where
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from words(value, (*where, key))


def changed(tree: Any, where: Where, name: str) -> bytes:  # noqa: ANN401
    """Return the tree as JSON with another string at one place."""
    copy = json.loads(json.dumps(tree))
    inner = copy
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = name
    return json.dumps(copy).encode()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_a_case_is_one_of_the_allowed_names(name: str) -> None:
    tree = json.loads(a_case(DEEP).to_json())
    places = [where for where in words(tree) if where[0] not in FREE]
    assert len(places) > 15
    for where in places:
        with pytest.raises(UsageError):
            Case.from_json(changed(tree, where, name))


@pytest.mark.parametrize("name", NAMES)
def test_a_case_with_unknown_parameters_or_fields_is_refused(name: str) -> None:
    tree = json.loads(a_case(DEEP).to_json())
    for inner in (
        tree,
        tree["model"],
        tree["layout"]["parameters"],
        tree["training"],
        tree["data"],
        tree["model"]["layers"][0],
    ):
        inner[name] = [["R"]]
        with pytest.raises(UsageError):
            Case.from_json(json.dumps(tree))
        del inner[name]
    Case.from_json(json.dumps(tree))


def test_only_public_files_of_a_folder_are_its_plug_ins(subtests: pytest.Subtests) -> None:
    for package, name in itertools.product(PLUGINS, [*NAMES, "os", "..errors", "__init__", "_options"]):
        with subtests.test(package=package, name=name):
            with pytest.raises(UsageError, match="unknown"):
                plugins.load(package, name)
            with pytest.raises(UsageError, match="unknown"):
                plugins.file(package, name)


def loads_only_tensors(call: ast.Call) -> bool:
    """Whether it is `torch.load(..., weights_only=True)`, which builds tensors and no other objects."""
    return ast.unparse(call.func) == "torch.load" and any(
        keyword.arg == "weights_only" and ast.unparse(keyword.value) == "True" for keyword in call.keywords
    )


@pytest.mark.long
def test_nothing_is_evaluated_unpickled_or_timed_by_a_clock_that_jumps() -> None:
    """Durations come from the monotonic clock; dates are only for people to read."""
    forbidden = {
        "eval",
        "exec",
        "__import__",
        "pickle.load",
        "pickle.loads",
        "yaml.load",
        "torch.load",
        "time.time",
        "os.system",
        "os.popen",
    }
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            called = {
                ast.unparse(node.func)
                for node in ast.walk(ast.parse(file.read_text()))
                if isinstance(node, ast.Call) and not loads_only_tensors(node)
            }
            assert not called & forbidden, f"{file} calls {called & forbidden}"
