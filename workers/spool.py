"""One rank's result as files: `rankN.json` with what is known, `rankN.npz` with the arrays. No pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from difftest.layout import Placements
from difftest.outcome import Array, Failure, Outcome, Sharded, Stage, Symptom, Tensors, Trace


def write(folder: Path, rank: int, outcome: Outcome) -> None:
    """Leaves `outcome` in `folder`; the JSON file is renamed into place last, so that it exists only when all is there."""
    if isinstance(outcome, Trace):
        arrays: dict[str, Array] = {}
        steps = [_describe(tensors, f"{index}", arrays) for index, tensors in enumerate(outcome.steps)]
        noise = [_describe(tensors, f"noise{index}", arrays) for index, tensors in enumerate(outcome.noise)]
        np.savez(folder / f"rank{rank}.npz", **cast("dict[str, Any]", arrays))
        known = {"steps": steps, "noise": noise, "environment": outcome.environment, "events": outcome.events}
    else:
        known = {"failure": {name: getattr(outcome, name) for name in Failure.__slots__}}
    unfinished = folder / f"rank{rank}.part"
    unfinished.write_text(json.dumps(known))
    unfinished.rename(folder / f"rank{rank}.json")


def read(folder: Path, rank: int) -> Outcome | None:
    """What `write` left, or None when the rank wrote nothing."""
    file = folder / f"rank{rank}.json"
    if not file.exists():
        return None
    known = json.loads(file.read_text())
    if "failure" in known:
        failure = known["failure"]
        return Failure(**failure | {"symptom": Symptom(failure["symptom"]), "stage": Stage(failure["stage"])})
    with np.load(folder / f"rank{rank}.npz", allow_pickle=False) as arrays:
        steps = tuple(_restore(step, arrays) for step in known["steps"])
        noise = tuple(_restore(step, arrays) for step in known["noise"])
    return Trace(steps=steps, noise=noise, environment=known["environment"], events=known["events"])


def _describe(tensors: Tensors, prefix: str, arrays: dict[str, Array]) -> list[dict[str, Any]]:
    described = []
    for (stage, name), tensor in tensors.items():
        pieces = {str(rank): f"{prefix}/{stage}/{name}/{rank}" for rank in tensor.pieces}
        arrays.update({pieces[str(rank)]: piece for rank, piece in tensor.pieces.items()})
        placements = msgspec.to_builtins(tensor.placements)
        described.append(
            {"stage": stage, "name": name, "shape": tensor.shape, "dtype": tensor.dtype, "placements": placements, "pieces": pieces}
        )
    return described


def _restore(described: list[dict[str, Any]], arrays: Mapping[str, Array]) -> Tensors:
    return {
        (Stage(d["stage"]), d["name"]): Sharded(
            shape=tuple(d["shape"]),
            dtype=d["dtype"],
            placements=msgspec.convert(d["placements"], type=Placements),
            pieces={int(rank): arrays[key] for rank, key in d["pieces"].items()},
        )
        for d in described
    }
