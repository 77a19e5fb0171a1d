"""Reproducers: one self-contained script that shows one finding, rendered from its case.

The one idea: a script is the case written out as Python. `reports.reproducer.script` gives the parts that are
data (layers, placements, numbers), `reports.reproducer.program` those of an operator program. How to use a
backend is a template, `<backend>.py.jinja` in `reports/templates/reproducers/` or, for programs, `programs/`;
there is no list of templates.
"""

import ast
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, nodes
from msgspec import UNSET

from difftest.cases import flags
from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.own import Own
from difftest.cases.routed import routed
from difftest.cases.script_values import python
from difftest.judge import checks
from difftest.judge.divergence import ARGUMENTS, Divergence
from difftest.judge.measured import Measurement
from difftest.judge.outcome import NO_MESSAGE, Failure, Outcome
from difftest.judge.stage import Stage
from reports.reproducer import blocks, features, own, spelling
from reports.reproducer.fault import Fault
from reports.reproducer.own import OwnScript
from reports.reproducer.permitted import require_permitted
from reports.reproducer.program import ProgramScript
from reports.reproducer.script import Gate, Plan, Script

FOLDER, PROGRAMS, SUFFIX = "reproducers", "programs", ".py.jinja"
LEAST_NEEDLE = 6
"""The least length in characters of a piece of a message that identifies an error."""

MOST_NEEDLE = 100
PYTHON_DIED = "Fatal Python error"
LEAST_RATIO = 100.0
"""An error of this many times the rounding noise shows with other numbers too.

The tolerance is then at least 10 times the rounding noise.
"""

WIDEST = 120
"""The most characters of a line that is made of several."""

_FED = re.compile(
    r"(?P<indent> *)inputs = (?P<inputs>.*)\n *targets = (?P<targets>.*)\n"
    r" *x, y = feed\(inputs\), feed\(targets\)\n"
)
"""Numbers that are drawn and fed; with more between them they keep their names."""

_OUTPUT = re.compile(r"^ *output = (model\(x\))\n( *loss = .*)\boutput\b", re.MULTILINE)
"""An output that the loss below it reads; elsewhere it keeps its name."""

READ_ONCE = 2
"""The times that a name stands in a script which is read once."""

_LOOSE = re.compile(
    r"^((?:import |from ).*)\n\n(?=import |from |os\.environ)"
    r"|^(\w[\w.]*(?:\(| = ).*)\n\n(?=\w[\w.]*(?:\(| = ))",
    re.MULTILINE,
)
"""An empty line between imports, or between assignments and calls, none of which is indented."""

MOST_AXES_OF_STAGES = 2
ADAPTIVE = ("adam", "adamw")
_GONE = "\0"
_VARYING = re.compile(rf"-?0x[0-9a-fA-F]+|(/[\w.+-]+)+/|-?\d+(\.\d+)?|{ARGUMENTS}|[\r\n]+")
"""The parts of a message that depend on case and machine: numbers, addresses, folders, DTensor's argument
lists."""


def fault(divergence: Divergence, outcome: Outcome, measurement: Measurement | None) -> Fault | None:
    """What a reproducer of `divergence` must show; None if no script can show it.

    `outcome` is that of the run that diverged, and `measurement` that of the diverging tensor at its step.
    The tolerance lies half way, in orders of magnitude, between the rounding noise and the error.
    """
    if divergence.stage is Stage.FORWARD and " " in divergence.tensor:
        return None  # a script shows the first of what a user's model returns
    check = checks.load_all().get(divergence.check)
    kind = check.TRAITS.scripts.get(divergence.symptom) if check else None
    if kind is None:
        return None
    shown = Fault(kind=kind, stage=divergence.stage, step=divergence.step, tensor=divergence.tensor)
    if isinstance(outcome, Failure):
        return Fault(
            kind=kind,
            stage=shown.stage,
            step=shown.step,
            failure=outcome.kind,
            needle=needle(outcome.message),
        )
    if kind != "numbers":
        return shown
    assert measurement is not None  # noqa: S101  a mismatch was measured
    return Fault(
        kind=kind, stage=shown.stage, step=shown.step, tensor=shown.tensor, tolerance=tolerance(measurement)
    )


def tolerance(measurement: Measurement) -> float:
    """The geometric mean of rounding noise and greatest error; half of the error where nothing rounds."""
    if measurement.exact or not 0.0 < measurement.floor < measurement.greatest:
        return measurement.greatest / 2
    return float(f"{(measurement.floor * measurement.greatest) ** 0.5:.3g}")


def any_numbers(case: Case, shown: Fault, ratio: float | None) -> bool:
    """Whether a script with other numbers of the case's kind shows the fault, and nothing but the fault.

    The case's rounding noise separates wrong numbers from rounding. Other numbers of the kind have the same
    noise up to a small factor, so `ratio`, the error in units of the noise, must be far above it. An adaptive
    optimizer magnifies a gradient that is nothing but rounding, which happens with some numbers and not with
    others.
    """
    if case.model.own:
        return False
    if shown.kind not in ("numbers", "nonfinite"):
        return True
    if case.data.learnable or (shown.kind == "numbers" and (ratio is None or ratio < LEAST_RATIO)):
        return False
    moved = shown.stage is Stage.UPDATE or shown.step > 0
    return not (moved and case.training.optimizer in ADAPTIVE)


def needle(message: str) -> str:
    """The longest piece of a message that does not change from case to case; empty if none is long enough."""
    if message.startswith((NO_MESSAGE, PYTHON_DIED)):
        return ""  # neither a source line nor what Python adds is in what a script prints
    text = message.partition("Check failed:")[2] or message  # a log's line begins with time and place
    pieces = [piece.strip() for piece in _VARYING.sub("\n", text).split("\n")]
    longest = max(pieces, key=len, default="")
    return longest[:MOST_NEEDLE].rstrip() if len(longest) >= LEAST_NEEDLE else ""


def backends(folder: str = FOLDER) -> tuple[str, ...]:
    """The backends that have a template, by name; those of programs are in the folder `PROGRAMS`."""
    templates = (
        name.removeprefix(f"{folder}/")
        for name in _environment().list_templates()
        if name.startswith(f"{folder}/")
    )
    return tuple(sorted(name.removesuffix(SUFFIX) for name in templates if name.endswith(SUFFIX)))


def refusal(case: Case, backend: str) -> str | None:
    """The reason why no script can be written for `case` on `backend`; None if one can."""
    there = backends(PROGRAMS if case.model.is_program else FOLDER)
    if backend not in there:
        return f"there is no template for backend {backend!r}; there are: {', '.join(there)}"
    return None if case.model.is_program else _training_refusal(case, backend)


def _training_refusal(case: Case, backend: str) -> str | None:
    if reason := _of_own(case.model.own, backend) if case.model.own else blocks.refusal(case):
        return reason
    lacks = (_without_regions, _without_stages, _without_experts, _without_gradients, _without_sharding)
    if reason := features.refusal(case) or next(filter(None, (one(case, backend) for one in lacks)), None):
        return reason
    flash = set(case.model.flash_attentions.values())
    if flash and not _declares(backend, "spells_flash_attention"):
        return "flash attention on XLA needs Pallas kernels, whose CPU interpreter is too long for a script"
    if len(flash) > 1:
        return "the case has several kinds of flash attention, and the templates can write only one"
    if case.start.accumulation != "loop" and case.training.accumulation > 1:
        return f"the case accumulates by {case.start.accumulation!r}, which no template can write yet"
    return None


def _of_own(layer: Own, backend: str) -> str | None:
    if _declares(backend, "spells_plan"):
        return "no script writes a user's plan of styles yet"
    if layer.by_rank:
        return "a script's reference has one batch; in this case every rank has one of its own"
    return own.refusal(layer)


def _without_regions(case: Case, backend: str) -> str | None:
    """Why a backend's template cannot cut the activations as the case does, or None."""
    if case.regions is UNSET or _declares(backend, "spells_regions"):
        return None
    return f"the case cuts activations, which the template of {backend} cannot write"


def _without_stages(case: Case, backend: str) -> str | None:
    """Why a backend's template cannot cut the model into stages as the case does, or None."""
    cut, writes = case.staged is not None and case.world_size > 1, _declares(backend, "spells_stages")
    if cut != writes:
        return f"the case has {'' if cut else 'no '}stages, which the template of {backend} cannot write"
    if not cut:
        return None
    if len(case.layout.mesh.axes) > MOST_AXES_OF_STAGES or case.layout.mesh.names[-1] in {"dp_shard", "tp"}:
        return "the template of stages wraps them in DDP over one axis, or not at all"
    return "no template clips over stages" if case.training.clip_norm is not None else None


def _without_experts(case: Case, backend: str) -> str | None:
    """Why a template whose ranks exchange rows cannot write the case, or None."""
    if not _declares(backend, "exchanges"):
        return None
    if case.world_size == 1 or not routed(case.model):
        return "ranks without experts exchange no rows"
    return (
        "no template clips over experts and what is beside them"
        if case.training.clip_norm is not None
        else None
    )


def _without_gradients(case: Case, _backend: str) -> str | None:
    """Why a collective has no script, or None."""
    learned = any(isinstance(one, Collective) and one.learned is not UNSET for one in case.model.layers)
    return "no template writes a collective that gradients go through" if learned else None


def _without_sharding(case: Case, _backend: str) -> str | None:
    """Why FSDP has no script with the case's options, or None."""
    if case.sharded_by.ignored is not None:
        return "no template averages the gradients of a parameter that FSDP ignores"
    if case.sharded_by.kept_between and case.sharded_by.synced == "every":
        return "no template keeps parameters gathered between parts that are all reduced"
    return None


@cache
def _declares(backend: str, name: str) -> bool:
    """Whether a backend's template declares `name`, by `{% set name = true %}`."""
    loader = _environment().loader
    assert loader is not None  # noqa: S101  `_environment` gives it one
    source, _, _ = loader.get_source(_environment(), f"{FOLDER}/{backend}{SUFFIX}")
    declared = _environment().parse(source).find_all(nodes.Assign)
    return any(isinstance(one.target, nodes.Name) and one.target.name == name for one in declared)


def gates(case: Case, backend: str, shown: Fault) -> tuple[Gate, ...]:
    """The compile gates of replicas on XLA with which a script may show a fault, the shortest script first.

    A failure may come before any graph has run, and then needs no gate. Replicas that compile apart wait for
    each other until XLA aborts, so that an abort has to be recognised by its message. One graph is enough
    where all of the first step, without a broadcast before it, shows the fault.
    """
    if case.model.is_program or not _declares(backend, "has_gate"):
        return ("graphs",)
    recognised = bool(shown.needle) or shown.failure != "SIGABRT"
    if shown.fails:
        return ("none", "graphs") if shown.kind != "hang" and recognised else ("graphs",)
    first = shown.steps == 1 and shown.stage not in (Stage.BUILD, Stage.PLACE) and shown.kind != "shape"
    synced = case.training.accumulation == 1 or not case.replication.no_sync
    alike = not case.replication.own_weights and synced and not case.model.own
    return ("once", "graphs") if first and alike else ("graphs",)


def render(  # noqa: PLR0913  a case, what a backend shows of it, and how
    case: Case,
    backend: str,
    shown: Fault,
    title: str,
    plan: Plan | None = None,
    *,
    block_texts: Mapping[str, str] | None = None,
    plain: bool = False,
    gate: Gate = "graphs",
) -> str:
    """The script that shows `shown` of `case` on `backend`, for cases that `refusal` accepts.

    `plan` is the layout as `parallelize_module` takes it, and `block_texts` the files of the case's building
    blocks by name. `plain` draws other numbers of the case's kind, which makes the script shorter; it is for
    faults that do not depend on the case's own numbers. `gate` is the compile gate of replicas on XLA, one of
    `gates`.
    """
    if case.model.is_program:
        return _tidy(
            f"{PROGRAMS}/{backend}{SUFFIX}",
            ProgramScript(case=case, fault=shown, title=spelling.docstring(title)),
        )
    common: dict[str, Any] = {
        "case": case,
        "moves": _declares(backend, "moves_activations"),
        "fault": shown,
        "title": spelling.docstring(title),
        "plan": plan or {},
        "blocks": {
            path: blocks.written((block_texts or {})[layer.block], layer, case)
            for path, layer in blocks.blocks(case)
        },
    }
    layer = case.model.own
    script = OwnScript(**common, layer=layer) if layer else Script(**common, plain=plain, gate=gate)
    return _tidy(f"{FOLDER}/{backend}{SUFFIX}", script)


def _tidy(template: str, script: Script | ProgramScript) -> str:
    text = _environment().get_template(template).render(it=script, Stage=Stage)
    own = isinstance(script, OwnScript)
    require_permitted(text, own=own)
    return tidied(text, short=not own)


def tidied(text: str, *, short: bool = False) -> str:
    """The script without unused imports and further empty lines.

    A `short` one has single empty lines around functions alone, and no names for numbers that are fed at
    once. That is not for scripts with a user's source, which must stay as it is.
    """
    pruned = _pruned(text)
    if short:
        fed = _FED.sub(_inlined, pruned)
        once = _OUTPUT.sub(r"\2\1", fed) if len(re.findall(r"\boutput\b", fed)) == READ_ONCE else fed
        single = re.sub(r"\n{3,}", "\n\n", once).strip("\n") + "\n"
        return _LOOSE.sub(lambda match: f"{match[1] or match[2]}\n", single)
    return re.sub(r"\n{4,}", "\n\n\n", pruned).strip("\n") + "\n"


def _inlined(fed: re.Match[str]) -> str:
    line = f"{fed['indent']}x, y = feed({fed['inputs']}), feed({fed['targets']})\n"
    return line if len(line) <= WIDEST else fed[0]


def _pruned(text: str) -> str:
    """The script without unused imports: a template imports everything that any of its scripts may need."""
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
    """Templates of Python: text from outside goes through `repr`, and nothing is escaped for HTML."""
    environment = Environment(  # noqa: S701  the output is not markup
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["repr"] = python
    environment.globals["unoptimised"] = flags.UNOPTIMISED
    return environment
