"""Cases with one part replaced, by what somebody would put there to run code or by what no type holds.

A case that is still accepted is rendered as `difftest reproducer` renders it, on some backends and for some
faults. No script is run.
"""

import ast
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import mutations
from sample_findings import FINDING

from difftest.cases.case import Case
from difftest.findings.known_cases import read_known_cases
from difftest.ground.errors import UsageError
from difftest.jobs.filing.reproduction import scripts
from difftest.judge.stage import Stage
from generators.cases import case_at
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.templates import FOLDER, PROGRAMS, backends

if TYPE_CHECKING:
    from difftest.judge.checks import ScriptKind

CODE = "PWN"
PAYLOADS = (
    *("PWN()", "0 or PWN()", 'x", PWN(), "', "x', PWN(), '", "a=PWN(), foreach", "1)\nPWN()\n(", "x\nPWN()"),
    *('"""\nPWN()\n"""', "'''\nPWN()\n'''", "\\", "torch.PWN()", "Tensor.PWN()", "{{7*7}}", "PWN(0)#"),
    *("{PWN()}", "{{ PWN() }}", "{% set x = PWN() %}", "f'{PWN()}'", "x}PWN(){", "PWN", "0.PWN", "0.x;PWN()"),
    *(
        "0.output)\nPWN(",
        "x]\nPWN()\n[",
        "PWN():\n pass\nif x",
        "lambda: PWN()",
        "\x00PWN()",
        "ＰＷＮ()",
        "P\\\nWN()",
    ),
    *(
        "__import__('PWN')",
        "torch.os.PWN",
        "torch.hub.PWN",
        "torch.nn.PWN.x",
        "torch.add.PWN",
        "PWN\n",
        "PWN\r",
    ),
)
Place: TypeAlias = tuple[Any, ...]
"""The path of a key or a value in JSON, with `key` or `value` at its end."""

PATHS = ("features", "blocks", "modules", "operators", "tensor_parallel", "collectives", "flash_attention")
GENERATED = 6
"""How many cases of every path are mutated, beside those of known faults."""


@dataclass(slots=True)
class Tried:
    """What became of mutated cases: how many there were, and what should not have been."""

    inputs: int = 0
    accepted: int = 0
    rendered: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    """Scripts that had the payload as code, by the place of the payload."""

    tracebacks: Counter[str] = field(default_factory=Counter)


def bases(count: int = GENERATED) -> list[tuple[Any, Sequence[Place]]]:
    """The cases that are mutated, as JSON and with their places.

    They are those of known faults, and `count` of every one of `PATHS`.
    """
    known = [case.read() for case in read_known_cases()]
    drawn = [case_at(11, index, paths=(path,), max_world_size=2) for path in PATHS for index in range(count)]
    values = [json.loads(case.to_json()) for case in (*known, *drawn)]
    return [(value, list(_places(value))) for value in values]


def tried(of: Sequence[tuple[Any, Sequence[Place]]], numbers: range) -> Tried:
    """Tries the mutated cases with these numbers: each has the same content wherever it is tried."""
    result = Tried()
    for number in numbers:
        rng = mutations.numbered(number)
        place, text = _mutated(rng, *rng.choice(of))
        result.inputs += 1
        try:
            case = Case.from_json(text)
        except UsageError:
            continue
        except Exception as error:  # noqa: BLE001  any other is a traceback
            result.tracebacks[f"{number}: {place}: {type(error).__name__}: {str(error)[:80]}"] += 1
            continue
        result.accepted += 1
        _render(rng, case, f"{number}: {place}", result)
    return result


def _mutated(rng: Random, base: Any, places: Sequence[Place]) -> tuple[str, bytes]:  # noqa: ANN401  JSON
    """The place that was changed, and the text of the case."""
    if rng.random() < 0.1:
        return "anywhere", mutations.of_json(rng, json.dumps(base).encode())
    place = rng.choice(places)
    *path, last, kind = place
    within = changed = deepcopy(base)
    for step in path:
        within = within[step]
    value = rng.choice(PAYLOADS) if rng.random() < 0.8 else rng.choice(mutations.WEIRD)
    if kind == "value":
        within[last] = value
    else:
        items = list(within.items())
        within.clear()
        within.update({str(value) if key == last else key: one for key, one in items})
    return ".".join(map(str, place)), json.dumps(changed).encode()


def _places(value: Any, path: Place = ()) -> Iterator[Place]:  # noqa: ANN401  JSON
    """The keys and the values of a JSON document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key, "key")
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))
    else:
        yield (*path, "value")


def _render(rng: Random, case: Case, what: str, result: Tried) -> None:
    there = backends(PROGRAMS if case.model.is_program else FOLDER)
    backend = rng.choice(there)
    try:
        if refusal(case, backend):
            return
        texts = list(scripts(_finding(backend), case, _fault(rng, case), PAYLOADS[2]))
    except UsageError:
        return
    except Exception as error:  # noqa: BLE001  any other is a traceback
        result.tracebacks[f"{what}: {backend}: {type(error).__name__}: {str(error)[:80]}"] += 1
        return
    result.rendered += len(texts)
    result.hits.update(what for text in texts if has_code(text))


def has_code(text: str) -> bool:
    """Whether the payload is a name in a script, and not only a text."""
    if CODE not in unicodedata.normalize("NFKC", text):
        return False
    nodes = list(ast.walk(ast.parse(text)))
    called = (node.func for node in nodes if isinstance(node, ast.Call))
    return any(_named(node) for node in called) or any(
        isinstance(node, ast.Import | ast.ImportFrom) and CODE in ast.unparse(node) for node in nodes
    )


def _named(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return CODE in name


def _finding(backend: str) -> Any:  # noqa: ANN401  a finding
    return msgspec.structs.replace(
        FINDING, divergence=msgspec.structs.replace(FINDING.divergence, backend=backend, ratio=1e6)
    )


def _fault(rng: Random, case: Case) -> Fault:
    """A fault that some script of the case may have to show."""
    kinds: tuple[ScriptKind, ...] = ("numbers", "nonfinite", "shape", "replicas", "raises", "crash", "hang")
    kind, step = rng.choice(kinds), rng.randrange(case.training.steps)
    stage = rng.choice((Stage.FORWARD, Stage.BACKWARD, Stage.UPDATE))
    names = list(case.model.parameters()) or ["0.input"]
    if kind in ("raises", "crash", "hang"):
        failure = "SIGABRT" if kind == "crash" else "RuntimeError"
        return Fault(kind=kind, stage=stage, step=step, failure=failure, needle=PAYLOADS[3])
    stage = Stage.UPDATE if kind == "replicas" else stage
    tensor = rng.choice(("loss", "output")) if stage is Stage.FORWARD else rng.choice(names)
    if case.model.is_program and tensor == "output":
        tensor = "0.output"
    return Fault(kind=kind, stage=stage, step=step, tensor=tensor, tolerance=1e-3, results={})
