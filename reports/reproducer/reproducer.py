"""Reproducers: one self-contained script that shows one finding, rendered from its case.

The one idea: a script is the case spelled out. `reports.reproducer.script` says what of it is data (layers, placements, numbers); how a backend is
used is a template, `reports/templates/reproducers/<backend>.py.jinja`, and there is no list of them.
"""  # noqa: E501

import ast
import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, nodes

from difftest.cases.case import Case
from difftest.judge import checks
from difftest.judge.divergence import ARGUMENTS, Divergence
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Failure, Outcome, Stage
from difftest.plugins import IN
from reports.reproducer import spelling
from reports.reproducer.script import Fault, Plan, Script

FOLDER, SUFFIX = "reproducers", ".py.jinja"
LEAST_NEEDLE = 6
"""A piece of a message shorter than this identifies nothing."""

MOST_NEEDLE = 100
LEAST_RATIO = 100.0
"""Errors of so many floors are shown by other numbers too: the tolerance then lies at ten floors or more."""

ADAPTIVE = ("adam", "adamw")
_GONE = "\0"
_VARYING = re.compile(rf"-?0x[0-9a-fA-F]+|(/[\w.+-]+)+/|-?\d+(\.\d+)?|{ARGUMENTS}|[\r\n]+")
"""What a message says of this case and this machine alone: numbers, addresses, folders, DTensor's argument lists."""


def fault(divergence: Divergence, outcome: Outcome, measurement: Measurement | None) -> Fault | None:
    """What a reproducer of `divergence` must show, seen in a run that ended in `outcome`; None where one script cannot show such a thing.

    `measurement` is that of the diverging tensor at its step. The tolerance lies half way, in orders of magnitude, between rounding and the
    error.
    """
    check = checks.load_all().get(divergence.check)
    kind = check.SCRIPTS.get(divergence.symptom) if check else None
    if kind is None:
        return None
    known = Fault(kind=kind, stage=divergence.stage, step=divergence.step, tensor=divergence.tensor)
    if isinstance(outcome, Failure):
        return Fault(
            kind=kind,
            stage=known.stage,
            step=known.step,
            failure=outcome.kind,
            needle=needle(outcome.message),
        )
    if kind != "numbers":
        return known
    assert measurement is not None  # noqa: S101  a mismatch was measured
    return Fault(
        kind=kind, stage=known.stage, step=known.step, tensor=known.tensor, tolerance=tolerance(measurement)
    )


def tolerance(measurement: Measurement) -> float:
    """The geometric mean of noise floor and greatest error; half of the error where nothing rounds."""
    if measurement.exact or not 0.0 < measurement.floor < measurement.greatest:
        return measurement.greatest / 2
    return float(f"{(measurement.floor * measurement.greatest) ** 0.5:.3g}")


def any_numbers(case: Case, shown: Fault, ratio: float | None) -> bool:
    """Whether a script may draw numbers of the case's kind instead of the case's own, and yet show nothing but the fault.

    Wrong numbers are told from rounding by the case's noise floor, which those of another draw share to a small factor: `ratio`, the error
    in floors, must be far above. An adaptive optimizer makes much of a gradient that is nothing but rounding in one draw, not in another.
    """
    if shown.kind not in ("numbers", "nonfinite"):
        return True
    if case.data.learnable or (shown.kind == "numbers" and (ratio is None or ratio < LEAST_RATIO)):
        return False
    moved = shown.stage is Stage.UPDATE or shown.step > 0
    return not (moved and case.training.optimizer in ADAPTIVE)


def needle(message: str) -> str:
    """The longest piece of a message that does not change from case to case; empty when none is long enough."""
    said = message.partition("Check failed:")[2] or message  # the log's line begins with time and place
    pieces = [piece.strip() for piece in _VARYING.sub("\n", said).split("\n")]
    longest = max(pieces, key=len, default="")
    return longest[:MOST_NEEDLE].rstrip() if len(longest) >= LEAST_NEEDLE else ""


def backends() -> tuple[str, ...]:
    """The backends that have a template, by name."""
    found = (
        name.removeprefix(f"{FOLDER}/")
        for name in _environment().list_templates()
        if name.startswith(f"{FOLDER}/")
    )
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)))


def refusal(case: Case, backend: str) -> str | None:
    """Why no script can be written for `case` on `backend`, or None."""
    if IN in backend:
        return f"{backend} runs in an environment of its own; `difftest bisect` asks several versions with one script"
    if backend not in backends():
        return f"there is no template for backend {backend!r}; there are: {', '.join(backends())}"
    flash = set(case.model.flash_attentions.values())
    if flash and not _declares(backend, "spells_flash_attention"):
        return "flash attention on XLA needs its Pallas kernels, which a CPU runs by an interpreter that is too long for a script"
    if len(flash) > 1:
        return "the case has several kinds of flash attention, and the templates spell out one"
    if case.start.accumulation != "loop" and case.training.accumulation > 1:
        return f"the case accumulates by {case.start.accumulation!r}, which no template spells out yet"
    return None


@cache
def _declares(backend: str, name: str) -> bool:
    """Whether a backend's template declares `name`, by `{% set name = true %}`."""
    loader = _environment().loader
    assert loader is not None  # noqa: S101  `_environment` gives it one
    source, _, _ = loader.get_source(_environment(), f"{FOLDER}/{backend}{SUFFIX}")
    declared = _environment().parse(source).find_all(nodes.Assign)
    return any(isinstance(one.target, nodes.Name) and one.target.name == name for one in declared)


def render(  # noqa: PLR0913  a case, who shows what of it, and how
    case: Case, backend: str, shown: Fault, title: str, plan: Plan | None = None, *, plain: bool = False
) -> str:
    """The script that shows `shown` of `case` on `backend`; only for what `refusal` does not name.

    `plan` is what the layout means to `parallelize_module`. `plain`: with any numbers, which is shorter, for a failure that does not depend
    on the case's own.
    """
    script = Script(
        case=case,
        moves=_declares(backend, "moves_activations"),
        fault=shown,
        title=spelling.docstring(title),
        plan=plan or {},
        plain=plain,
    )
    text = _environment().get_template(f"{FOLDER}/{backend}{SUFFIX}").render(it=script, Stage=Stage)
    return re.sub(r"\n{4,}", "\n\n\n", _pruned(text)).strip("\n") + "\n"


def _pruned(text: str) -> str:
    """A script without the imports that it does not use: a template names all that it might."""
    tree, lines = ast.parse(text), text.splitlines()
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [
                alias for alias in node.names if (alias.asname or alias.name).partition(".")[0] in used
            ]
            lines[node.lineno - 1] = ast.unparse(node) if node.names else _GONE
    return "\n".join(line for line in lines if line != _GONE)


@cache
def _environment() -> Environment:
    """Templates of Python: what is not ours goes through `repr`, nothing is escaped for HTML."""
    environment = Environment(  # noqa: S701  it is no markup
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["repr"] = repr
    return environment
