"""Where a tensor is wrong: the pieces that ranks hold, as a grid of the mesh."""

from collections.abc import Sequence
from typing import NamedTuple

from difftest.cases.layout import Mesh
from difftest.judge.pieces import Piece
from difftest.records.finding import Finding
from reports import cells


class Cell(NamedTuple):
    """The piece of one rank: the class that colours it, its error, what it is of the tensor, its words."""

    kind: str
    error: str
    rank: int
    part: str
    words: str


class Grid(NamedTuple):
    """Cells as rows by columns: `across` is the mesh axis of columns, a row has its place on the others."""

    tensor: str
    across: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def of_pieces(finding: Finding, mesh: Mesh | None) -> Grid | None:
    """The grid of a finding's tensor; None where its pieces are not known or do not fit the mesh.

    None too where no element is wrong, as of a tensor with a wrong dtype: there is no place to show. The last
    axis of the mesh is that of the columns.
    """
    if mesh is None or [piece.rank for piece in finding.pieces] != list(range(mesh.world_size)):
        return None
    if not any(piece.wrong for piece in finding.pieces):
        return None
    size, shown = mesh.shape[-1], finding.divergence
    rows = []
    for first in range(0, mesh.world_size, size):
        place = zip(mesh.names[:-1], mesh.coordinate(first)[:-1], strict=True)
        name = ", ".join(f"{axis} {index}" for axis, index in place)
        rows.append((name, tuple(_cell(piece) for piece in finding.pieces[first : first + size])))
    return Grid(
        tensor=f"{shown.tensor}, step {shown.step}, {shown.stage}",
        across=mesh.names[-1],
        columns=tuple(f"{mesh.names[-1]} {index}" for index in range(size)),
        rows=tuple(rows),
    )


def _cell(piece: Piece) -> Cell:
    kind = "diverge" if piece.wrong else "agree"
    part = part_in_words(piece.part)
    error = cells.shown(piece.ratio) if piece.elements else "empty"
    words = (
        f"{piece.wrong:,} of {piece.elements:,} elements wrong, greatest error {error} x the rounding noise"
    )
    sign = "✗" if piece.wrong else "✓"
    return Cell(kind, f"{sign} {error}", piece.rank, part, f"rank {piece.rank}: {part}; {words}")


def part_in_words(part: Sequence[tuple[int, int]]) -> str:
    """What a piece is of its tensor as an index: `[0:4, 0:16]`; a tensor without dims has no parts."""
    if not part:
        return "the whole scalar"
    return f"[{', '.join(f'{start}:{stop}' for start, stop in part)}]"
