"""Tensors have the oracle's shapes, the case's dtype, and lie where the layout says."""

from collections.abc import Iterator

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Key, Pair
from difftest.judge.outcome import Failure, Sharded, Stage, Symptom

ORDER = 1


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a tensor that is missing, has another shape, dtype or placement, or whose pieces do not make it up."""
    actual = dict(seen.tensors())
    for step, tensors in enumerate(() if isinstance(seen.actual, Failure) else seen.expected.steps):
        for (stage, name), truth in tensors.items():
            key = (step, stage, name)
            if wrong := _wrong(seen, key, truth, actual.get(key)):
                nature, detail = wrong
                yield seen.diverges("shape", Symptom.MISMATCH, key, detail, nature=nature)


def _wrong(seen: Pair, key: Key, truth: Sharded, tensor: Sharded | None) -> tuple[str, str] | None:
    """What is wrong, as a word and for people; None where nothing is."""
    if tensor is None:
        return "missing", "is missing"
    if tensor.shape != truth.shape:
        return "shape", f"has shape {tensor.shape}, expected {truth.shape}"
    _, stage, name = key
    dtype = "float32" if name == "loss" else seen.case.dtype
    if tensor.dtype != dtype:
        return "dtype", f"has dtype {tensor.dtype}, expected {dtype}"
    placements = seen.case.layout.parameters.get(name)
    if stage is Stage.UPDATE and placements is not None and tensor.placements != placements:
        return "placements", f"has placements {_words(tensor.placements)}, expected {_words(placements)}"
    misfits = tensor.misfits(seen.case.layout.mesh)
    return ("pieces", "; ".join(misfits)) if misfits else None


def _words(placements: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, placements))})"
