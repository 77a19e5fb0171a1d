"""A made-up corpus for looking at pages: real cases and refusals of real backends, with invented endings.

The known findings are those of the ledger, so that their titles and backends are as long as real ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from benchmarks.records import measurements
from msgspec.structs import replace
from sample_findings import BEGAN, a_finding, a_measurement, an_observation, changed

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.findings.ledger import read_ledger
from difftest.judge.capability import Lack
from difftest.judge.losses import Losses
from difftest.judge.noise import THRESHOLD
from difftest.judge.outcome import Symptom
from difftest.judge.pieces import Piece
from difftest.judge.stage import Stage
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.covered import Covered
from difftest.records.evidence import (
    CORRECT_SIBLINGS,
    OTHER,
    OTHER_SINGLE,
    SINGLE,
    UNDECIDED,
    WRONG_SIBLINGS,
)
from difftest.records.finding import Finding
from difftest.records.observation import Ending, Observation
from difftest.records.reachable import reachable
from generators.cases import case_at
from generators.operators import table
from workers import backends

DISTINCT = 60
"""How many real cases there are; the others repeat them under other ids."""

SECONDS_A_CASE = 5.0
PROGRAMS_FROM = 10**9
"""The index from which on a case is a program beside the others."""

LACKS = (
    Lack(operator="cumsum", overload="cumsum.default", reason="OP falls back to the host with torch_xla #"),
    Lack(operator="nn.functional.adaptive_max_pool3d", reason="dim # of OP is not supported"),
    Lack(operator="", overload="_linalg_svd.default", reason="OP() has no sharding strategy"),
    Lack(operator="qr", overload="linalg_qr.default", reason="Operator OP does not have a sharding strategy"),
)
"""What backends say that they lack for operators, as it is counted."""

VERSIONS = {
    "torch": {"python": "3.11.2", "torch": "2.9.0", "device": "cpu", "numpy": "2.3.4"},
    "xla": {"python": "3.11.2", "torch": "2.9.0", "torch_xla": "2.9.0", "device": "CPU", "numpy": "2.3.4"},
}
_GRADIENT = dict(  # noqa: C408  of fields
    check="gradients",
    symptom=Symptom.MISMATCH,
    stage=Stage.BACKWARD,
    step=1,
    tensor="0.weight",
    nature="times a number of ranks",
    ratio=3.1e5,
    detail="step 1, backward, 0.weight: 13 / 316 elements (4.1%) differ; greatest 0.714 at (1, 34), 3.1e5 x "
    "the rounding noise 1.2e-07; values are about 0.21; times a number of ranks",
)
_LOSS = dict(  # noqa: C408
    check="loss",
    symptom=Symptom.MISMATCH,
    stage=Stage.FORWARD,
    tensor="loss",
    nature="wrong on one rank alone",
    ratio=84.0,
)
_EXCEPTION = dict(  # noqa: C408
    check="completion",
    symptom=Symptom.EXCEPTION,
    stage=Stage.BACKWARD,
    cause="RuntimeError\nview size",
    detail="step 0, backward, rank 2: RuntimeError: Op(op=aten._unsafe_view.default, args_schema=Spec(f32[8, "
    "6](S(0))), List[int] @ mesh: (2, 2)): view size is not compatible with input tensor's size and stride "
    "(at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
    log="Traceback (most recent call last):\n" + "  File torch/_dispatch.py, in dispatch\n" * 12,
)
_CRASH = dict(  # noqa: C408
    check="completion",
    symptom=Symptom.CRASH,
    stage=Stage.UPDATE,
    detail="step 0, update, rank 0: SIGABRT: F0000 00:00:17.1 external/xla/xla/spmd_partitioner.cc:3466] "
    "Check failed: hlo->has_sharding() Side-effect HLO must have sharding",
)
UNKNOWN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("xla_spmd", _GRADIENT),
    ("xla_ddp", _LOSS),
    ("torch_dtensor", _EXCEPTION),
    ("xla_annotated", _CRASH),
)
"""Backends with the divergence of each unknown finding."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A real case with what backends say of it."""

    case: Case
    refusals: Mapping[str, str]


@cache
def drawn() -> tuple[Drawn, ...]:
    """The real cases."""
    candidates = backends.candidates()
    cases = (case_at(0, index) for index in range(DISTINCT))
    return tuple(
        Drawn(case, {name: backend.unsupported(case) or "" for name, backend in candidates.items()})
        for case in cases
    )


def findings(began: datetime = BEGAN) -> tuple[Finding, ...]:
    """The unknown findings, and a known one for each entry of the ledger about a backend that there is."""
    usual = {"first_seen": began.isoformat(), "last_seen": began.isoformat(), "stable": (2, 2)}
    evidence = {SINGLE: "agrees", OTHER: "agrees", OTHER_SINGLE: "agrees", CORRECT_SIBLINGS: "xla_annotated"}
    own = [
        changed(
            a_finding(ratio=None), backend=name, side=_side(name), evidence=evidence, hits=3 + number, **shown
        )
        for number, (name, shown) in enumerate(UNKNOWN)
    ]
    own[1] = replace(own[1], evidence={**own[1].evidence, WRONG_SIBLINGS: "xla_replica"})
    own[3] = replace(own[3], evidence={**own[3].evidence, SINGLE: UNDECIDED, OTHER: UNDECIDED})
    there = backends.candidates()
    for number, entry in enumerate(read_ledger().entries):
        name, check, symptom = (*entry.fingerprint.split("-"), "", "")[:3]
        backend = name.replace("*", "spmd")
        if backend in there:
            shown: dict[str, Any] = {
                "backend": backend,
                "side": _side(backend),
                "check": check.replace("*", "loss"),
                "symptom": Symptom(symptom) if symptom in set(Symptom) else Symptom.MISMATCH,
                "cause": f"entry {number}",
                "detail": f"step 0, forward, rank 0: {' '.join(entry.what.values()).strip('*')}",
            }
            shown["ratio"] = 4e4 if shown["symptom"] is Symptom.MISMATCH else None
            own.append(changed(a_finding(), **shown, upstream=entry.upstream, hits=1 + number % 40))
    return tuple(replace(finding, fingerprint=finding.divergence.fingerprint, **usual) for finding in own)


def make(
    out: Path, cases: int, campaign: str = "night-2026-01-05", began: datetime = BEGAN, *, salt: int = 0
) -> None:
    """Writes the corpus of a campaign of so many cases; further ones may follow in the same folder."""
    corpus = Corpus(out / CORPUS)
    corpus.prepare()
    shown = list[Finding]()
    for number, finding in enumerate(findings(began)):
        case = _case_of(finding, number)
        shown.append(replace(finding, case=case.id, pieces=_pieces(finding, case)))
        if not corpus.holds(finding.fingerprint):
            corpus.save(shown[-1], case)
    encoder = msgspec.json.Encoder()
    with corpus.lines(campaign).open("wb") as lines:
        for index, runs in enumerate(_runs(cases, shown, salt)):
            started = (began + timedelta(seconds=SECONDS_A_CASE * index)).isoformat()
            lines.write(encoder.encode_lines([replace(r, campaign=campaign, started=started) for r in runs]))


def _case_of(finding: Finding, number: int) -> Case:
    """The case of a finding: one of several steps and axes for wrong numbers, where its backend takes one."""
    able = [one.case for one in drawn() if not one.refusals[finding.divergence.backend]] or [drawn()[0].case]
    if finding.divergence.symptom is Symptom.MISMATCH:
        able.sort(key=lambda case: -len(case.layout.mesh.axes) * (case.training.steps > 1) * case.world_size)
        return able[number % 4 % len(able)]
    return able[number % len(able)]


def _pieces(finding: Finding, case: Case) -> tuple[Piece, ...]:
    """Pieces of a tensor of 8 rows, of which the last rank's is wrong."""
    if finding.divergence.symptom is not Symptom.MISMATCH or case.world_size == 1:
        return ()
    size, last = case.world_size, case.world_size - 1
    rows = [(8 * rank // size, 8 * (rank + 1) // size) for rank in range(size)]
    return tuple(
        Piece(
            rank=rank,
            part=(part, (0, 16)),
            elements=16 * (part[1] - part[0]),
            wrong=13 * (rank == last),
            ratio=3.1e5 if rank == last else 0.4,
        )
        for rank, part in enumerate(rows)
    )


def _losses(case: Case, backend: str, *, wrong: bool = False) -> Losses:
    """A loss that falls by a fifth in every step; a wrong one soon stops to fall."""
    steps = case.training.steps if case.training.steps > 1 else 0
    values = [0.8 ** (min(step, 1) if wrong else step) for step in range(steps)]
    noise = tuple(1e-4 * (step + 1) for step in range(steps)) if backend == "oracle" else ()
    off = 0.0 if backend == "oracle" else 2e-4 * (1 + sum(map(ord, backend)) % 5)
    return Losses(values=tuple(value + off * step for step, value in enumerate(values)), noise=noise)


def _side(backend: str) -> str:
    return backend.partition("_")[0]


def _runs(cases: int, shown: list[Finding], salt: int) -> Iterator[list[Observation]]:
    """The lines of each case."""
    random = np.random.default_rng(salt)
    by_backend: dict[str, list[Finding]] = {}
    for finding in shown:
        by_backend.setdefault(finding.divergence.backend, []).append(finding)
    for index in range(cases):
        one = drawn()[index % DISTINCT]
        oracle = replace(_line(one.case, index, "oracle"), verdict="oracle", side="oracle")
        if index % 5 == 0:
            yield [_program(one.case, index, name) for name in one.refusals]
        yield [
            oracle,
            *(
                _ended(one.case, _line(one.case, index, name), refusal, by_backend.get(name, []), random)
                for name, refusal in one.refusals.items()
            ),
        ]


def _line(case: Case, index: int, backend: str) -> Observation:
    """A line about a case and a backend as a campaign would write it."""
    return an_observation(
        index,
        backend,
        case=case.id if index < DISTINCT else f"{index:012x}",
        path=case.path,
        mesh=str(case.layout.mesh),
        mesh_rank=len(case.layout.mesh.axes),
        world_size=case.world_size,
        dtype=case.dtype,
        optimizer=case.training.optimizer,
        loss=case.training.loss,
        regime=case.data.regime,
        layers=tuple(type(layer).__name__ for _, layer in walk(case.model.layers)),
        steps=case.training.steps,
        environment=VERSIONS.get(_side(backend), VERSIONS["torch"]),
        losses=_losses(case, backend),
    )


def _program(case: Case, index: int, backend: str) -> Observation:
    """The line of a program of operators, which covers some of them, or whose backend lacks one."""
    line = replace(
        _line(case, PROGRAMS_FROM + index, backend),
        case=f"f{index:011x}",
        path="operators",
        loss="cotangent",
        losses=Losses(),
    )
    number = index // 5 + len(backend)
    if number % 7 == 0:
        lack = LACKS[number // 7 % len(LACKS)]
        ending = Ending(status="capability")
        return replace(line, verdict="unsupported", reason=lack.reason, lacks=(lack,), outcome=ending)
    names = sorted(reachable().dispatched)
    here = tuple(names[number % 40 :: 40])
    entries = tuple(sorted(chosen.name for chosen in (*table.usable()[number % 30 :: 30], *_modules(number))))
    covered = Covered(
        forward={("whole", "even", "uneven")[number % 3]: here},
        backward={"even": here[::2]},
        entries={"even": entries},
        differentiated={"even": entries[::2]},
        rules=tuple(f"{name} S0>S0" for name in here[::4]) if backend == "torch_dtensor" else (),
        parts={"features": ("schedule",), "options": ("momentum",)},
    )
    return replace(line, covered=covered)


def _modules(number: int) -> tuple[table.OperatorEntry, ...]:
    return table.modules()[number % 9 :: 9]


def _ended(
    case: Case, line: Observation, refusal: str, faults: list[Finding], random: np.random.Generator
) -> Observation:
    """The line with an invented ending: most agree, some show one of the faults or are in doubt."""
    if refusal:
        return replace(
            line, verdict="unsupported", reason=refusal, losses=Losses(), outcome=Ending(status="unsupported")
        )
    faults = [fault for fault in faults if fault.case == line.case] or faults
    rounding = (
        replace(measurement, ratio=measurement.ratio % THRESHOLD) for measurement in measurements(random)
    )
    chance, measured = random.random(), tuple(rounding)
    first = bool(faults) and faults[0].case == line.case
    if first or (faults and chance < 0.03):
        finding = faults[int(random.integers(min(len(faults), 12)))]
        wrong = finding.divergence
        failed = Ending(status=wrong.symptom, stage=wrong.stage, kind="RuntimeError", message=wrong.detail)
        apart = {"verdict": "diverge", "fingerprints": (finding.fingerprint,)}
        if wrong.symptom is not Symptom.MISMATCH:
            return replace(line, outcome=failed, losses=Losses(), **apart)
        spoiled = _losses(case, line.backend, wrong=True)
        return replace(
            line, measurements=(*measured, a_measurement(wrong.ratio or 1e4)), losses=spoiled, **apart
        )
    if chance > 0.997:
        return replace(
            line, verdict="inconclusive", reason="rounding alone decides it", measurements=measured
        )
    if chance > 0.995:
        return replace(line, verdict="lost", reason="a node was lost", outcome=Ending(status="lost"))
    return replace(line, measurements=measured)
