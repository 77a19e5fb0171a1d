"""mypy checks every plug-in against its folder's Protocol, and rejects plug-ins that break it.

mypy runs with the project's configuration, once on an assignment of every plug-in, and once on broken copies.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rooms import PACKAGES, ROOT

from difftest.ground import plugins

pytestmark = pytest.mark.slow

LOADS = re.compile(r"plugins\.load\((package=)?__name__")
"""Matches the call that loads the plug-ins of a folder."""

PLANTED, KINDS = "workers.faults", "difftest.cases.layers"
"""Folders without a Protocol.

A file there holds decorated functions or a class; the decorator or the base class has the types.
"""

BROKEN = {
    "order": ("difftest.judge.checks", "loss", r"ORDER = 4", 'ORDER = "four"'),
    "script": ("difftest.judge.checks", "finite", r'"nonfinite"}', '"infinite"}'),
    "traits": ("difftest.judge.checks", "zero_signs", r"TRAITS = .*\n", ""),
    "prediction": ("difftest.judge.predictions", "unreduced", r"at: Key\)", "at: str)"),
    "ablations": ("difftest.findings.ablations", "dtype", r"ORDER = \d+", 'ORDER = "late"'),
    "simplifications": ("difftest.reduce.simplifications", "mesh", r"\(one_device, ", "(1, "),
    "command": ("difftest.commands", "support", r"def command\(", "def support("),
    "path": ("generators.paths", "data_parallel", r"mesh: Mesh, purpose", "grid: Mesh, purpose"),
    "backend": ("workers.backends", "oracle", r"PROFILE = .*\n", ""),
    "processes": (
        "workers.backends",
        "oracle",
        r"-> int:\n(.*)\n    return 1",
        r'-> str:\n\1\n    return "1"',
    ),
    "kind": (
        KINDS,
        "linear",
        r"def gives\(self, width: int\) -> int:",
        "def gives(self, width: str) -> int:",
    ),
    "module": ("workers.training.layers", "conv", r"def module\(", "def modules("),
    "blocks": ("generators.layers", "dropout", r"= \(", "= (1, "),
    "declared": ("difftest.cases.blocks", "swiglu", r"-> Declared:", "-> int:"),
    "built": ("workers.training.blocks", "swiglu", r"def module\(", "def modules("),
    "arguments": (
        "difftest.cases.blocks",
        "swiglu",
        r"class Arguments\(BlockArguments",
        "class Arguments(object",
    ),
    "options": ("difftest.cases.features", "schedule", r"class Options\(", "class Option("),
    "hooks": ("workers.training.features", "schedule", r"def equal\(", "def equals("),
    "feature": ("difftest.cases.features", "schedule", r"-> Choices \| None", "-> int"),
    "definition": ("workers.references.layers", "activation", r"def computed\(", "def compute("),
    "defined": ("workers.references.blocks", "swiglu", r"def computed\(", "def compute("),
    "formulas": ("workers.references.operators", "special", r"Mapping\[str, Formula\]", "Mapping[str, int]"),
    "optimizer": ("workers.references.optimizers", "sgd", r"def updated\(", "def update("),
    "format": ("reports.formats", "csv", r"def render\(", "def rendered("),
    "source": ("workers.own.named", "timm", r"def candidates\(", "def recipes("),
    "checkpoint": ("workers.checkpoints", "distributed", r"def recognizes\(", "def recognises("),
    "fault": (PLANTED, "runtime", r"_case: Case, _rank: int\)", "_case: Case)"),
}
"""Folder, plug-in, and the replacement in a copy of it: a pattern and the new text."""


def folders() -> dict[str, str]:
    """Map every plug-in folder to its Protocol; a plug-in folder is one whose `__init__` loads plug-ins."""
    protocol_of = {}
    for file in sorted(file for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")):
        text = file.read_text()
        if LOADS.search(text):
            package = ".".join(file.parent.relative_to(ROOT).parts)
            protocols = re.findall(r"^class (\w+)\(Protocol\)", text, re.MULTILINE)
            assert len(protocols) == (package not in {PLANTED, KINDS}), (
                f"{file} has the Protocols {protocols}; expected one"
            )
            protocol_of[package] = protocols[0] if protocols else ""
    return protocol_of


def assignments(package: str, protocol: str, name: str, module: str) -> Iterator[str]:
    """Yield the lines that assign one plug-in, imported as `module`, to its Protocol."""
    yield f"import {package}\nimport {module}"
    if protocol:
        yield f"{name}: {package}.{protocol} = {module}"
        return
    tree = ast.parse(plugins.file(package, name).read_text())
    if package == KINDS:
        yield "import difftest.cases.layer"
        for node in tree.body:  # a kind may have types of its own beside its class
            if isinstance(node, ast.ClassDef) and f"tag='{name}'" in map(ast.unparse, node.keywords):
                yield f"{name}_{node.name}: type[difftest.cases.layer.Layer] = {module}.{node.name}"
        return
    planted = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    assert planted or name.startswith("_"), f"{name} plants nothing"
    for fault in planted:
        yield f"{name}_{fault}: {package}.PlantedFault | {package}.VacuousFault = {module}.{fault}"


def printed(*files: Path) -> list[str]:
    """Run mypy and return the lines with the errors in `files`, and the notes that explain them."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if re.search(r": (error|note): ", line)]


def test_every_folder_with_plugins_has_a_protocol_and_a_broken_copy() -> None:
    assert set(folders()) == {package for package, *_ in BROKEN.values()}


def test_every_plugin_satisfies_its_folders_protocol(tmp_path: Path) -> None:
    checked = {}
    for package, protocol in folders().items():
        assert plugins.names(package)
        for name in plugins.names(package):
            use = tmp_path / f"{package.replace('.', '_')}_{name}.py"
            use.write_text("\n".join(assignments(package, protocol, name, f"{package}.{name}")) + "\n")
            checked[use] = plugins.file(package, name)
    # The plug-ins are among the files, because mypy hides the errors of modules that it finds on sys.path.
    lines = printed(*checked, *checked.values())
    for use, file in checked.items():
        lines = [re.sub(rf"^{use}:\d+", str(file.relative_to(ROOT)), line) for line in lines]
    assert not lines, "\n".join(lines)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The mypy errors in copies of plug-ins: the first is intact, each other one is broken in one place."""
    folder = tmp_path_factory.mktemp("broken")
    copies = {"intact": ("difftest.judge.checks", "loss", r"\A", ""), **BROKEN}
    for copy, (package, name, pattern, replacement) in copies.items():
        text, times = re.subn(pattern, replacement, plugins.file(package, name).read_text(), count=1)
        assert times == 1, f"{name} in {package} has no {pattern!r} any more"
        (folder / f"copy_{copy}.py").write_text(text)
        lines = assignments(package, folders()[package], name, f"copy_{copy}")
        (folder / f"use_{copy}.py").write_text("\n".join(lines) + "\n")
    return [line for line in printed(*sorted(folder.iterdir())) if ": error: " in line]


@pytest.mark.parametrize("copy", BROKEN)
def test_a_broken_plugin_is_refused(copy: str, refused: list[str]) -> None:
    assert [line for line in refused if re.search(rf"(use|copy)_{copy}\.py:", line)]


def test_an_intact_copy_is_not_refused(refused: list[str]) -> None:
    assert not [line for line in refused if "_intact.py" in line]
