"""Reproducers: one self-contained script that shows one finding, rendered from its case.

The one idea: a script is the case written out as Python. `reports.reproducer.script` gives the parts that are
data (layers, placements, numbers), `reports.reproducer.program` those of an operator program. How to use a
backend is a template, `<backend>.py.jinja` in `reports/templates/reproducers/` or, for programs, `programs/`;
there is no list of templates.
"""

from collections.abc import Mapping
from typing import Any

from difftest.cases.case import Case
from difftest.cases.twins import is_twin
from difftest.ground.errors import UsageError
from difftest.judge.stage import Stage
from reports.reproducer import blocks, spelling
from reports.reproducer.fault import Fault
from reports.reproducer.own import OwnScript
from reports.reproducer.permitted import require_permitted
from reports.reproducer.program import ProgramScript
from reports.reproducer.script import Gate, Plan, Script
from reports.reproducer.templates import FOLDER, PROGRAMS, SUFFIX, declares, environment
from reports.reproducer.tidied import tidied


def gates(case: Case, backend: str, shown: Fault) -> tuple[Gate, ...]:
    """The compile gates of replicas on XLA with which a script may show a fault, the shortest script first.

    A failure may come before any graph has run, and then needs no gate. Replicas that compile apart wait for
    each other until XLA aborts, so that an abort has to be recognised by its message. One graph is enough
    where all of the first step, without a broadcast before it, shows the fault.
    """
    if case.model.is_program or not declares(backend, "has_gate"):
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
    if is_twin(case) and shown.right is None:
        msg = "a script of a twin compares torch with the right numbers, and this fault has none"
        raise UsageError(msg)
    if case.model.is_program:
        program = ProgramScript(case=case, fault=shown, title=spelling.docstring(title))
        return _tidy(f"{PROGRAMS}/{backend}{SUFFIX}", program)
    common: dict[str, Any] = {
        "case": case,
        "moves": declares(backend, "moves_activations"),
        "fault": shown,
        "title": spelling.docstring(title),
        "plan": plan or {},
        "blocks": {
            path: blocks.written((block_texts or {})[layer.block], layer, case)
            for path, layer in blocks.blocks(case)
        },
    }
    own = case.model.own
    script = OwnScript(**common, layer=own) if own else Script(**common, plain=plain, gate=gate)
    return _tidy(f"{FOLDER}/{backend}{SUFFIX}", script)


def _tidy(template: str, script: Script | ProgramScript) -> str:
    text = environment().get_template(template).render(it=script, Stage=Stage)
    own = isinstance(script, OwnScript)
    require_permitted(text, own=own)
    return tidied(text, short=not own)
