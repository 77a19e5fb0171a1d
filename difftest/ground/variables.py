"""The environment variables that difftest reads, as data: the one table behind the documentation.

The code that reads a variable keeps its name and its default, beside what it does with the value. A test
compares this table with the names in the source.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

from difftest.ground.errors import UsageError

PREFIX = "DIFFTEST_"
COLUMNS = ("Variable", "Default", "Values", "Meaning", "Set by", "Read by")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable.

    `default` is what holds where it is not set, `values` what is allowed, with the unit. `set_by` is `user`,
    `difftest` (for single runs; it never comes from a case or from a file of somebody else) or `developer`
    (for tests alone). `read_by` names the modules or test files that read it.
    """

    name: str
    default: str
    values: str
    meaning: str
    set_by: str
    read_by: tuple[str, ...]


VARIABLES = (
    Variable(
        name="DIFFTEST_DEADLINE",
        default="60",
        values="seconds, from 1 to 86400",
        meaning=(
            "How long a run may make no progress before it counts as a hang, in the run's own time: waiting "
            "for a CPU does not count."
        ),
        set_by="user",
        read_by=("workers.deadlines",),
    ),
    Variable(
        name="DIFFTEST_DEFECTS",
        default="a few of every kind",
        values="`all`, or a comma-separated list of `defect:backend`",
        meaning="Which planted defects the test of the reducer's quality plants.",
        set_by="developer",
        read_by=("tests/reduce/test_reduce_quality.py",),
    ),
    Variable(
        name="DIFFTEST_EAGER_ON_GPU",
        default="0",
        values="0 or 1",
        meaning=(
            "At 1, the reference `torch_eager` runs on a GPU where there is one, and runs the twins of "
            "programs too: the GPU's kernels in float64 beside the CPU's."
        ),
        set_by="user",
        read_by=("workers.backends.torch_eager",),
    ),
    Variable(
        name="DIFFTEST_ENVIRONMENTS",
        default="none",
        values="a TOML file",
        meaning=(
            "Gives backends a Python, resources, labels and nodes of a cluster. Without it, all "
            "backends run under this Python, on the nodes that have their accelerators."
        ),
        set_by="user",
        read_by=("workers.cluster.environments",),
    ),
    Variable(
        name="DIFFTEST_FAULT",
        default="none",
        values="the name of a planted defect",
        meaning="Plants this defect into the run, so that the service can measure itself.",
        set_by="difftest",
        read_by=("workers.child",),
    ),
    Variable(
        name="DIFFTEST_INHERIT",
        default="none",
        values="names of variables, separated by commas",
        meaning=(
            "Further environment variables that runs inherit, such as those that your own model reads. Runs "
            "inherit only what Python, the frameworks and their libraries read, and no secrets."
        ),
        set_by="user",
        read_by=("difftest.ground.inherited",),
    ),
    Variable(
        name="DIFFTEST_MADE",
        default="`environments` in difftest's folder of the user's state",
        values="a folder",
        meaning="Where `difftest environments make` keeps the environments that it makes.",
        set_by="user",
        read_by=("difftest.ground.made_environments",),
    ),
    Variable(
        name="DIFFTEST_MATMUL_PRECISION",
        default="highest",
        values="`default`, `high` or `highest`",
        meaning=(
            "The precision of matrix products under torch_xla and torchax, for a whole run. An "
            "ablation lowers it."
        ),
        set_by="difftest",
        read_by=("workers.xla.devices", "workers.backends.torchax"),
    ),
    Variable(
        name="DIFFTEST_MEMORY",
        default="half of the machine's memory",
        values="GiB, above 0 and up to 1048576",
        meaning=(
            "How much memory all processes of a run may hold together. It must be set on every node of a "
            "cluster."
        ),
        set_by="user",
        read_by=("workers.isolate.limits",),
    ),
    Variable(
        name="DIFFTEST_MKLDNN",
        default="1",
        values="0 or 1",
        meaning="Whether torch uses oneDNN's kernels on the CPU. Both are legal and round differently.",
        set_by="difftest",
        read_by=("workers.child",),
    ),
    Variable(
        name="DIFFTEST_OPEN_CLUSTER",
        default="0",
        values="0 or 1",
        meaning=(
            "At 1, a Ray cluster without token authentication may be joined: whoever reaches its "
            "ports runs code on it. Otherwise it is refused."
        ),
        set_by="user",
        read_by=("workers.cluster.token",),
    ),
    Variable(
        name="DIFFTEST_OTHER_PYTHON",
        default="none",
        values="a Python interpreter",
        meaning=(
            "The Python of an environment with difftest, the same Ray and Python versions and "
            "another torch, for the test that compares two versions."
        ),
        set_by="developer",
        read_by=("tests/service/test_two_versions.py",),
    ),
    Variable(
        name="DIFFTEST_RECORDING",
        default="none",
        values="a folder",
        meaning=(
            "Where `difftest.record` writes, in place of the folder that the script gives. `difftest compare "
            "--by release` sets it."
        ),
        set_by="difftest",
        read_by=("difftest.runs.layout",),
    ),
    Variable(
        name="DIFFTEST_SAMPLED_STEPS",
        default="all of the case",
        values="a number of steps, 1 or more",
        meaning="How many steps the samples beyond the usual 4 take, where a mismatch is in an early step.",
        set_by="difftest",
        read_by=("workers.backends.oracle",),
    ),
    Variable(
        name="DIFFTEST_SAMPLES",
        default="4",
        values="a number of runs, 1 or more",
        meaning=(
            "How many times the oracle repeats a case with simulated rounding to measure the "
            "noise floor. A run with more gets a deadline that is longer by the same factor."
        ),
        set_by="difftest",
        read_by=("workers.backends.oracle", "workers.isolate.limits"),
    ),
    Variable(
        name="DIFFTEST_SHARE_GPUS",
        default="0",
        values="0, 1 or nccl",
        meaning=(
            "At 1, torch's ranks share GPUs where there are fewer GPUs than ranks, and "
            "communicate with gloo; at nccl, with NCCL. Otherwise such a case runs on the CPU."
        ),
        set_by="user",
        read_by=("workers.torch.devices", "workers.cluster.environments"),
    ),
    Variable(
        name="DIFFTEST_THREADS",
        default="1",
        values="a number of threads, 1 or more",
        meaning=(
            "How many threads a torch operator uses on the CPU. Every number is legal and may "
            "round differently."
        ),
        set_by="difftest",
        read_by=("workers.child",),
    ),
    Variable(
        name="DIFFTEST_TRACE_MODULES",
        default="0",
        values="0 or 1",
        meaning=(
            "At 1, a run also records every module's output and the gradient of it, to locate a "
            "finding's first wrong module."
        ),
        set_by="difftest",
        read_by=("workers.training.module_traces",),
    ),
)
"""By name. What other packages read, such as `PJRT_DEVICE`, is documented with them."""


def as_markdown() -> str:
    """The table in Markdown, one row per variable, ending with a newline."""
    rows = [
        (
            f"`{v.name}`",
            v.default,
            v.values,
            v.meaning,
            v.set_by,
            ", ".join(f"`{name}`" for name in v.read_by),
        )
        for v in VARIABLES
    ]
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def number(name: str, allowed: str, valid: Callable[[float], bool]) -> float | None:
    """The number in an environment variable; None where it is not set.

    `UsageError` unless it is `valid`, which `allowed` says in words.
    """
    text = os.environ.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not valid(value):
        msg = f"{name} is {text!r}; allowed: {allowed}"
        raise UsageError(msg)
    return value
