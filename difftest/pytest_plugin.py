"""`pytest --difftest`: a team's own model in its own tests, on a few layouts, with torch alone.

A test takes the fixture `difftest` and calls `difftest.check(build, batch)`. Every layout is a run of two
ranks in processes of their own, which is compared with the float64 reference. What differs fails the test.
"""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from difftest.findings.ledger import Entry
    from difftest.judge.comparator import Comparison

OPTION = "--difftest"

USUAL = ("ddp", "fsdp", "dtensor")
STEPS = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option without which such tests are skipped: each takes seconds to a minute."""
    parser.getgroup("difftest").addoption(
        OPTION,
        action="store_true",
        help="Run the tests that train a model on several layouts and compare (fixture difftest).",
    )


@pytest.fixture
def difftest(request: pytest.FixtureRequest) -> "Checker":
    """Trains a model on a few layouts and compares each with the float64 reference."""
    if not request.config.getoption(OPTION):
        pytest.skip(f"needs {OPTION}: it trains a model on several layouts")
    return Checker()


class Checker:
    """What the fixture gives."""

    def check(
        self,
        build: Callable[..., Any] | str,
        batch: Callable[..., Any] | None = None,
        *,
        layouts: Iterable[str] = USUAL,
        steps: int = STEPS,
        dtype: str = "float32",
    ) -> None:
        """Fails the test where a layout trains otherwise than one device in float64.

        `build` and `batch` are functions of a file in the working directory, as `--model` takes it; the file
        may be the test's own. Instead, `build` is a source: `model.py:build`, `hf:llama`. `layouts` are ddp,
        fsdp, dtensor and tensor_parallel, each over two ranks. `pytest.fail` lists what differs, with step,
        tensor and how many times the rounding noise; what cannot be compared fails too.
        """
        __tracebackhide__ = True
        from difftest.jobs.proof import real_models

        source = build if isinstance(build, str) else _source(build, batch)
        compared = real_models.compared(source, tuple(layouts), steps=steps, dtype=dtype)
        lines = [line for layout, comparison, entry in compared for line in _words(layout, comparison, entry)]
        if lines:
            pytest.fail("\n".join(lines), pytrace=False)


def _source(build: Callable[..., Any], batch: Callable[..., Any] | None) -> str:
    """The file and the name of a function; `UsageError` unless its file has the batch too."""
    from difftest.ground.errors import UsageError

    file = Path(inspect.getsourcefile(build) or "")
    name, here = getattr(build, "__qualname__", ""), Path.cwd().resolve()
    if not name.isidentifier() or not file.resolve().is_relative_to(here):
        msg = f"{name or build!r} of {str(file)!r}; needed: a function of a file in {str(here)!r}"
        raise UsageError(msg)
    if batch is not None and (batch.__name__ != "batch" or inspect.getsourcefile(batch) != str(file)):
        msg = f"{batch.__name__} is given as the batch; needed: a function called batch, beside {name}"
        raise UsageError(msg)
    return f"{file.resolve().relative_to(here).as_posix()}:{name}"


def _words(layout: str, comparison: "Comparison", entry: "Entry | None") -> list[str]:
    """What is wrong on a layout, in a line; nothing where it agrees."""
    if comparison.verdict == "agree":
        return []
    if not comparison.divergences:
        return [f"{layout}: cannot be compared: {comparison.reason}"]
    first, *rest = comparison.divergences
    more = f" ({len(rest)} more beside it, or following from it)" if rest else ""
    fault = f"; a known fault, not your model's: {entry.reason} ({entry.upstream})" if entry else ""
    return [f"{layout}: {first.detail}{more}{fault}"]
