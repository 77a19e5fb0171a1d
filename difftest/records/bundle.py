"""Bundles: runs recorded on one machine, compared on another that may have neither torch nor the devices.

A bundle is a folder with `cases/<id>.json`, `runs/<number>.{json,npz}` and one line a run in `runs.jsonl`,
written as the runs end: a recording that was killed leaves a bundle too. `requested.json` says which backends
it was to run, and `missing.jsonl` which of their runs were not made, with the reason
(`difftest.records.bundle_lines`). A bundle is data from elsewhere: names, sizes and digests are checked
before anything in it is used.
"""

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from difftest.cases.case import Case
from difftest.cases.layout import Mesh
from difftest.ground.errors import InfrastructureError, UnsupportedError, UsageError
from difftest.judge.outcome import Outcome, Sharded, Trace
from difftest.records import bundle_lines
from difftest.records.bundle_lines import EVIDENCE, LINES, MISSING, REQUESTED, Absent, RunLine, Who
from difftest.records.bundle_runs import RUNS, outcome_of, save
from difftest.records.case_files import read_case, write_case
from difftest.records.condensed import joined, restore
from difftest.records.disk import append, replace_file
from difftest.records.observation import REFUSED, UNSUPPORTED

CASES = "cases"

MOST_JOINED = 4
"""So many cases' oracles are remembered: each condensed run of a case needs its own."""


class BundleWriter:
    """Writes a bundle; several threads may record at once. `UsageError` when the folder is not empty.

    `backends` are those that are to run.
    """

    def __init__(self, root: Path, backends: Iterable[Who] = ()) -> None:
        if root.exists() and any(root.iterdir()):
            msg = f"{str(root)!r} is not empty; a bundle is recorded into a folder of its own"
            raise UsageError(msg)
        for folder in (RUNS, CASES):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self._root, self._lock, self._count = root, threading.Lock(), 0
        replace_file(root / REQUESTED, msgspec.json.encode(sorted(backends)) + b"\n")

    def keep(self, index: int, case: Case, ran: Who, options: Mapping[str, str], outcome: Outcome) -> None:
        """Adds one run of `case` on the backend `ran`, with its outcome."""
        with self._lock:
            number, self._count = self._count, self._count + 1
        digests = save(self._root, number, outcome)
        backend, side, framework = ran
        line = RunLine(
            index=index,
            case=case.id,
            backend=backend,
            side=side,
            framework=framework,
            number=number,
            digests=digests,
            options=dict(options),
        )
        with self._lock:
            if not (file := self._root / CASES / f"{case.id}.json").exists():
                write_case(file, case)
            append(self._root / LINES, msgspec.json.encode(line) + b"\n")

    def miss(self, index: int, case: Case, absent: Mapping[str, tuple[str, str]]) -> None:
        """Adds how the runs of `case` ended that were not made: by backend, the status and the reason."""
        lines = [
            Absent(index=index, case=case.id, backend=backend, status=status, reason=reason)
            for backend, (status, reason) in absent.items()
        ]
        with self._lock:
            if lines and not (file := self._root / CASES / f"{case.id}.json").exists():
                write_case(file, case)
            append(self._root / MISSING, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


@dataclass(slots=True, kw_only=True)
class Recorded:
    """A backend of a bundle. It expresses every case but those of which the bundle says otherwise."""

    SIDE: str
    FRAMEWORK: str
    refusals: dict[str, str] = field(default_factory=dict)

    def unsupported(self, case: Case) -> str | None:
        """Why the backend could not express the case, or None."""
        return self.refusals.get(case.id)


Key: TypeAlias = tuple[str, str, frozenset[tuple[str, str]]]
"""A run's case, backend and options."""


class Joined:
    """Several bundles as one campaign: `cases` with indices, `backends`, and `execute`, a look-up of runs."""

    def __init__(self, roots: Sequence[Path], oracle: str) -> None:
        self.backends: dict[str, Recorded] = {}
        self._cases: dict[str, Case] = {}
        self._indices: dict[str, int] = {}
        self._runs: dict[Key, list[tuple[Path, RunLine]]] = {}
        self._absent: dict[tuple[str, str], Absent] = {}
        self._oracles = defaultdict[Key, list[tuple[Path, RunLine]]](list)
        self._oracle, self._lock = oracle, threading.Lock()
        self._joined = lru_cache(maxsize=MOST_JOINED)(self._read_joined)
        for root in roots:
            self._add(root)

    @property
    def cases(self) -> Iterator[tuple[int, Case]]:
        """The campaign's own cases with their indices, which identify them.

        They are numbered anew where bundles of several seeds give one index to more than one case.
        """
        ordered = sorted(self._indices.items(), key=lambda item: (item[1], item[0]))
        unique = len(set(self._indices.values())) == len(ordered)
        return (
            (index if unique else place, self._cases[case]) for place, (case, index) in enumerate(ordered)
        )

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The next recorded run of `case` on `backend`; `InfrastructureError` when there is none left.

        It is an `UnsupportedError` where the worker refused the run when it was recorded.

        The oracle's runs are alike, so that one is returned each time. A run made as evidence serves every
        finding that needs it.
        """
        with self._lock:
            left = self._runs.get((case.id, backend, frozenset(options.items())), [])
            if not left and not options:
                raise self._missing(case, backend)
            if not left:
                msg = f"case {case.id} was not recorded on {backend} (again) with options {dict(options)}"
                raise InfrastructureError(msg)
            again = backend == self._oracle or (len(left) == 1 and left[0][1].index == EVIDENCE)
            root, run = left[0] if again else left.pop(0)
        what = f"run {run.number} of {root}"
        outcome = self._joined(run.key) if backend == self._oracle else outcome_of(root, run)
        if backend != self._oracle and run.beside is not None and isinstance(outcome, Trace):
            outcome = self._restored(case, root, run, outcome)
        origin = outcome.origin
        if origin and (origin.case, origin.backend) != (case.id, backend):
            msg = f"{what} is of case {origin.case} on {origin.backend}, not of {case.id} on {backend}"
            raise UsageError(msg)
        return _fitting(outcome, case, what, whole=backend == self._oracle)

    def _read_joined(self, key: Key) -> Outcome:
        """The oracle's first run, which may be condensed, with the digits that other bundles' have."""
        (root, run), *others = self._oracles[key]
        outcome = outcome_of(root, run)
        if run.beside is None or not isinstance(outcome, Trace):
            return outcome
        traces = (outcome_of(*other) for other in others)
        return joined([outcome, *(other for other in traces if isinstance(other, Trace))])

    def _restored(self, case: Case, root: Path, run: RunLine, difference: Trace) -> Trace:
        """A condensed run, beside the oracle that all bundles share."""
        own = [
            one
            for at, one in self._oracles[case.id, self._oracle, frozenset()]
            if at == root and one.number == run.beside
        ]
        noise = outcome_of(root, own[0]) if own else None
        values = self.execute(case, self._oracle, {})
        if not isinstance(noise, Trace) or not isinstance(values, Trace):
            msg = f"run {run.number} of {root} is condensed beside run {run.beside}, which is no oracle's"
            raise UsageError(msg)
        return restore(case, values, noise, difference)

    def _missing(self, case: Case, backend: str) -> InfrastructureError:
        """Why there is no run, as it was recorded; without a record, the bundle lacks it."""
        if absent := self._absent.get((case.id, backend)):
            return (UnsupportedError if absent.status == REFUSED else InfrastructureError)(absent.reason)
        return InfrastructureError(f"case {case.id} was not recorded on {backend} (again)")

    def _add(self, root: Path) -> None:
        requested = bundle_lines.requested(root)
        for name, side, framework in requested:
            self.backends.setdefault(name, Recorded(SIDE=side, FRAMEWORK=framework))
        for absent in bundle_lines.absent(root):
            self._indices.setdefault(self._case(root, absent.case).id, absent.index)
            self._absent[absent.case, absent.backend] = absent
            if absent.status == UNSUPPORTED and absent.backend in self.backends:
                self.backends[absent.backend].refusals[absent.case] = absent.reason
        for run in bundle_lines.lines(root):
            case = self._case(root, run.case)
            if not self._takes(root, run):
                continue
            # What the oracle alone ran in a bundle that says no more, no backend of it could express.
            if run.index != EVIDENCE and (requested or run.backend != self._oracle):
                self._indices[case.id] = run.index
            if run.backend != self._oracle:
                self.backends.setdefault(run.backend, Recorded(SIDE=run.side, FRAMEWORK=run.framework))

    def _takes(self, root: Path, run: RunLine) -> bool:
        """Adds a run to those that `execute` returns; False for the oracle's where another bundle has it.

        The oracle's runs of all bundles serve all of them.
        """
        recorded, of_oracle = self._runs.setdefault(run.key, []), run.backend == self._oracle
        if of_oracle:
            self._oracles[run.key].append((root, run))
        if recorded and recorded[0][0] != root:
            if not of_oracle:
                msg = (
                    f"case {run.case} on {run.backend} is in {recorded[0][0]} and in {root}; "
                    "each backend's runs must come from one bundle"
                )
                raise UsageError(msg)
            return False
        recorded.append((root, run))
        return True

    def _case(self, root: Path, name: str) -> Case:
        if name not in self._cases:
            case = read_case(root / CASES / f"{name}.json")
            if case.id != name:
                file = root / CASES / f"{name}.json"
                msg = f"{file} holds case {case.id}; a bundle's cases are named by their content"
                raise UsageError(msg)
            self._cases[name] = case
        return self._cases[name]


def _fitting(outcome: Outcome, case: Case, what: str, *, whole: bool) -> Outcome:
    """`outcome`, or `UsageError` where it cannot be one of `case`.

    `whole`: it is the oracle's, of one device, with its noise. The checks find how else it differs from what
    the case requests.
    """
    if not isinstance(outcome, Trace):
        return outcome
    if len(outcome.steps) != case.training.steps:
        msg = f"{what} has {len(outcome.steps)} steps; case {case.id} has {case.training.steps}"
        raise UsageError(msg)
    if whole:
        alone, steps = case.unsharded().layout.mesh, zip(outcome.steps, outcome.noise, strict=False)
        pairs = [
            (name, tensor, noise.get((stage, name)))
            for step, noise in steps
            for (stage, name), tensor in step.items()
        ]
        if len(outcome.noise) != len(outcome.steps) or not all(_whole(alone, *pair) for pair in pairs):
            msg = f"{what} is no oracle's: every tensor must be whole, with its noise in its shape"
            raise UsageError(msg)
    return outcome


def _whole(alone: Mesh, name: str, tensor: Sharded, noise: Sharded | None) -> bool:
    """Whether an oracle's tensor is whole, and its noise has its shape; the loss is one number."""
    if noise is None or noise.shape != tensor.shape or (name == "loss" and math.prod(tensor.shape) != 1):
        return False
    return not tensor.misfits(alone) and not noise.misfits(alone)
