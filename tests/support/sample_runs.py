"""Recorded runs made from numpy arrays, for tests without torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from difftest.runs import layout
from difftest.runs.layout import (
    BUCKETS,
    WIDTH,
    Floats,
    ModuleDescription,
    NamedShare,
    Package,
    RankEnvironment,
    Step,
    Tensor,
)
from workers.runs.writing import Writer

Values = Mapping[tuple[str, str], Floats]
"""The tensors of a step by kind and owner."""

NAMES = ("embed", "block.attn", "block.mlp", "head")
DIGEST = (11, 12, 13)
SIGNS = np.random.default_rng(7).choice([-1.0, 1.0], 100_000)


def row(values: Floats, first: int = 0) -> Floats:
    """The row of a block that begins at a flat index, with signs by global index."""
    flat = values.ravel()
    index = np.arange(first, first + flat.size)
    made = np.zeros(WIDTH)
    finite = np.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0)
    made[:BUCKETS] = np.bincount(index % BUCKETS, weights=SIGNS[index] * finite, minlength=BUCKETS)
    made[layout.SQUARES] = (flat**2).sum()
    made[layout.LEAST], made[layout.GREATEST] = flat.min(), flat.max()
    made[layout.NANS], made[layout.INFS] = np.isnan(flat).sum(), np.isinf(flat).sum()
    made[layout.ELEMENTS] = flat.size
    return made


def training(
    steps: int = 3, seed: int = 0, names: Sequence[str] = NAMES
) -> list[dict[tuple[str, str], Floats]]:
    """The tensors of a training of a few modules."""
    random = np.random.default_rng(seed)
    found = []
    for step in range(steps):
        tensors: dict[tuple[str, str], Floats] = {}
        if not step:
            tensors |= {(layout.START, f"{name}.weight"): random.normal(size=(8, 16)) for name in names}
        tensors |= {(layout.OUTPUT, name): random.normal(size=(4, 16)) for name in names}
        tensors |= {(layout.OUTPUT_GRADIENT, name): random.normal(size=(4, 16)) for name in reversed(names)}
        tensors |= {(layout.GRADIENT, f"{name}.weight"): random.normal(size=(8, 16)) for name in names}
        tensors |= {(layout.UPDATED, f"{name}.weight"): random.normal(size=(8, 16)) for name in names}
        found.append(tensors)
    return found


def noisy(steps: Sequence[Values], size: float = 1e-6, seed: int = 1) -> list[dict[tuple[str, str], Floats]]:
    """The same training with relative noise of this size."""
    random = np.random.default_rng(seed)
    return [
        {key: value * (1 + size * random.normal(size=value.shape)) for key, value in tensors.items()}
        for tensors in steps
    ]


def write(  # noqa: PLR0913  what a test may want to choose
    folder: Path,
    steps: Sequence[Values],
    *,
    ranks: int = 1,
    cut: bool = False,
    losses: Sequence[float] | None = None,
    digests: Mapping[str, tuple[int, int, int]] | None = None,
    perturbed: float = 0.0,
    settings: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    changed: Mapping[int, Sequence[Values]] | None = None,
    packages: Mapping[str, Package] | None = None,
    microbatches: int = 1,
    every: int = 1,
) -> Path:
    """Writes a run. Each rank has copies, or with `cut` its rows; `changed` replaces a rank's.

    The steps are every first, second, ... of a training.
    """
    owners = dict.fromkeys(owner for tensors in steps for kind, owner in tensors if kind in layout.PARAMETERS)
    modules = dict.fromkeys(
        owner for tensors in steps for kind, owner in tensors if kind not in layout.PARAMETERS
    )
    for rank in range(ranks):
        about = RankEnvironment(
            rank=rank,
            world_size=ranks,
            data_ranks=ranks if cut else 1,
            settings={"torch": "2.9.0", **(settings or {})},
            modules=tuple(
                ModuleDescription(path=name, kind="Linear", arguments=(arguments or {}).get(name, ""))
                for name in modules
            ),
            parameters=tuple(owners),
            perturbed=perturbed,
            packages=dict(packages or {}),
        )
        writer = Writer(folder, about)
        for step, tensors in enumerate((changed or {}).get(rank, steps)):
            rows = [
                _cut(kind, owner, value, rank, ranks if cut else 1)
                for (kind, owner), value in tensors.items()
            ]
            loss = losses[step] if losses else 2.0 - 0.1 * step
            given = digests or {"0": DIGEST}
            share = (
                {name: (values if not rank else (0, 0, 0)) for name, values in given.items()}
                if cut
                else given
            )
            line = Step(
                step=step * every,
                row=0,
                tensors=(),
                loss=loss,
                microbatches=microbatches,
                samples=4,
                digests=dict(share),
            )
            writer.write(line, rows)
        writer.close()
    return folder


def _cut(kind: str, owner: str, value: Floats, rank: int, ranks: int) -> tuple[Tensor, Floats]:
    batched = kind not in layout.PARAMETERS
    piece, first = NamedShare(), 0
    if batched and ranks > 1:
        height = value.shape[0] // ranks
        first = rank * height * value.shape[1]
        value = value[rank * height : (rank + 1) * height]
        piece = NamedShare(
            name=f"b{rank}/{ranks}", words=f"the samples of data-parallel rank {rank} of {ranks}"
        )
    about = Tensor(
        id=-1, kind=kind, owner=owner, shape=value.shape, dtype="float32", piece=piece, batched=batched
    )
    return about, row(value, first)
