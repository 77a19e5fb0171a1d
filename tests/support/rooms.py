"""The rooms of the code and their import levels, which the import test enforces and ARCHITECTURE.md shows."""

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("difftest", "generators", "workers", "reports")
SCRIPTS = ROOT / "difftest" / "findings" / "known"
"""Scripts for bug reports, which are data of the program and no modules of it."""


def source_files() -> list[Path]:
    """The modules of the program."""
    every = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return sorted(file for file in every if file.parent != SCRIPTS)


FLOORS: tuple[Mapping[str, tuple[str, ...]], ...] = (
    {"ground": ("difftest.ground",)},
    {"cases": ("difftest.cases",)},
    {"judge": ("difftest.judge",)},
    {"records": ("difftest.records",)},
    {"campaign": ("difftest.campaign",)},
    {
        "findings": ("difftest.findings",),
        "passes": ("difftest.passes",),
        "reduce": ("difftest.reduce",),
        "runs": ("difftest.runs",),
    },
    {"generators": ("generators",), "workers": ("workers",), "reports": ("reports",)},
    {"jobs": ("difftest.jobs",)},
    {"commands": ("difftest.commands",)},
    {"door": ("difftest.api", "difftest.cli", "difftest.pytest_plugin", "difftest.__main__")},
)
"""The rooms, lowest floor first, with their modules. Imports lead to lower floors or stay in their room."""

INNER_FLOORS: Mapping[str, tuple[frozenset[str], ...]] = {
    "difftest.jobs": (
        frozenset({"screen"}),
        frozenset({"ask"}),
        frozenset({"campaign", "installed"}),
        frozenset({"filing", "proof"}),
        frozenset({"night", "watch"}),
        frozenset({"fixes"}),
    ),
    "generators": (
        frozenset({"chances", "signatures"}),
        frozenset({"explore"}),
        frozenset({"sizes"}),
        frozenset({"features"}),
        frozenset({"layers"}),
        frozenset({"layouts", "models", "options"}),
        frozenset({"operators", "training"}),
        frozenset({"inputs"}),
        frozenset({"paths"}),
        frozenset({"sequence"}),
        frozenset({"cases"}),
        frozenset({"ahead", "own"}),
    ),
    "workers": (
        frozenset({"own"}),
        frozenset(
            {
                "deadlines",
                "gpus",
                "missing_packages",
                "pjrt_clients",
                "plain_layouts",
                "references",
                "sides",
                "training",
            }
        ),
        frozenset({"exceptions", "torch"}),
        frozenset({"checkpoints", "runs", "xla"}),
        frozenset({"tpu"}),
        frozenset({"backends", "faults"}),
        frozenset({"isolate"}),
        frozenset({"child", "cluster"}),
        frozenset({"zygote"}),
    ),
    "reports": (
        frozenset({"cells", "columns", "kept", "reproducer", "tracebacks"}),
        frozenset({"frame"}),
        frozenset({"tables"}),
        frozenset({"covered", "draft"}),
        frozenset({"report"}),
        frozenset({"page"}),
        frozenset({"formats"}),
        frozenset({"watch", "write"}),
    ),
}
"""The folders and modules directly inside a package, lowest floor first: the same rule holds for them."""
