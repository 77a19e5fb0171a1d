"""Tensors have the oracle's shapes, the case's dtype, and the placements of the layout."""

from collections.abc import Iterator, Mapping

from difftest.judge.checks import ScriptKind
from difftest.judge.divergence import Divergence
from difftest.judge.measured import Key, MeasuredRun
from difftest.judge.outcome import Failure, Sharded, Symptom
from difftest.judge.stage import Stage

ORDER = 1
USES_NUMBERS = False
COMPARES_RANKS = False
TAKES_TWO_RUNS = False
RUN_FAILED = False
LACKS_CAPABILITY = False
SCRIPTS: Mapping[Symptom, ScriptKind] = {Symptom.MISMATCH: "shape"}


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each tensor that is missing or has a wrong shape, dtype, placement or piece."""
    actual = dict(run.tensors())
    for step, tensors in enumerate(() if isinstance(run.actual, Failure) else run.expected.steps):
        for (stage, name), truth in tensors.items():
            key = (step, stage, name)
            if wrong := _wrong(run, key, truth, actual.get(key)):
                nature, detail = wrong
                yield run.tensor_divergence("shape", Symptom.MISMATCH, key, detail, nature=nature)


def _wrong(run: MeasuredRun, key: Key, truth: Sharded, tensor: Sharded | None) -> tuple[str, str] | None:
    """What is wrong, as a nature and as a message; None where nothing is."""
    if tensor is None:
        return "missing", "is missing"
    if tensor.shape != truth.shape:
        return "shape", f"has shape {tensor.shape}, expected {truth.shape}"
    _, stage, name = key
    dtype = "float32" if name == "loss" else run.case.dtype
    if tensor.dtype != dtype:
        return "dtype", f"has dtype {tensor.dtype}, expected {dtype}"
    placements = run.case.layout.parameters.get(name)
    if stage is Stage.UPDATE and placements is not None and tensor.placements != placements:
        return "placements", f"has placements {_listed(tensor.placements)}, expected {_listed(placements)}"
    misfits = tensor.misfits(run.case.layout.mesh)
    return ("pieces", "; ".join(misfits)) if misfits else None


def _listed(placements: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, placements))})"
