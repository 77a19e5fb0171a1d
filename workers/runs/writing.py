"""Writing a rank's files of a recorded run; `difftest.runs.layout` describes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from difftest.ground.errors import UsageError
from difftest.runs import layout
from difftest.runs.layout import WIDTH, Floats, RankEnvironment, Step, Tensor


class Writer:
    """Appends to the files of one rank. A step's line comes after its rows, so no reader misses one.

    `UsageError` where the folder has a run of this rank.
    """

    def __init__(self, folder: Path, environment: RankEnvironment) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._stem = folder / layout.stem(environment.rank)
        lines = self._stem.with_suffix(".jsonl")
        try:
            self._lines = lines.open("xb")
        except FileExistsError as error:
            msg = f"{str(folder)!r} has a run of rank {environment.rank} already; give a new folder"
            raise UsageError(msg) from error
        self._rows = self._stem.with_suffix(".f64").open("xb")
        self._row = 0
        self._tensors: dict[tuple[object, ...], Tensor] = {}
        self._lines.write(layout.encoded(environment))
        self._lines.flush()

    def write(self, step: Step, rows: Sequence[tuple[Tensor, Floats]]) -> None:
        """Writes a step, whose tensors and first row are filled in here."""
        numbers = [self._number(tensor) for tensor, _ in rows]
        matrix = np.array([row for _, row in rows], "<f8").reshape(-1, WIDTH)
        self._rows.write(matrix.tobytes())
        self._rows.flush()
        line = msgspec.structs.replace(step, row=self._row, tensors=tuple(numbers))
        self._row += len(rows)
        self._lines.write(layout.encoded(line))
        self._lines.flush()

    def write_arrays(self, step: int, arrays: Mapping[str, Floats]) -> None:
        """Writes whole tensors of a step."""
        if arrays:
            named: dict[str, Any] = dict(arrays)  # numpy's types take a name for one of savez's own arguments
            np.savez(self._stem.with_name(f"{self._stem.name}.step-{step:08}.npz"), **named)

    def close(self) -> None:
        """Ends the run."""
        self._lines.close()
        self._rows.close()

    def _number(self, tensor: Tensor) -> int:
        """The number of a tensor in the file, which gets a line for it the first time."""
        key = (*tensor.key, tensor.shape, tensor.dtype, tensor.piece.name)
        if key not in self._tensors:
            self._tensors[key] = msgspec.structs.replace(tensor, id=len(self._tensors))
            self._lines.write(layout.encoded(self._tensors[key]))
        return self._tensors[key].id
