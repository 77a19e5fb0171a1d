"""Cases drawn ahead of need, in processes of their own: drawing one takes about 10 ms of a core.

A short campaign draws its cases as it needs them, and starts no process.
"""

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from functools import partial
from typing import TypeAlias

from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from generators.cases import case_at
from generators.explore import BLOCK

MOST_PROCESSES = 4
BLOCKS_AHEAD = 2
"""How many blocks of cases are drawn ahead for each process."""

Draw: TypeAlias = Callable[[Sequence[int]], list[bytes]]
"""The cases at some indices as JSON, which is faster than pickle to send and to read."""


def cases_ahead(
    seed: int, indices: Iterable[int], *, paths: tuple[str, ...] | None = None, max_world_size: int = 8
) -> Iterator[tuple[int, Case]]:
    """The cases of `seed` at `indices` (recorded numbers), in the order of a campaign, each with its index.

    Those of the first block are drawn here, one by one; the blocks after it are drawn ahead.
    """
    numbered = itertools.groupby(indices, key=lambda index: CaseNumber.of(index).index // BLOCK)
    blocks = (tuple(block) for _, block in numbered)
    for index in next(blocks, ()):
        yield index, case_at(seed, index, paths=paths, max_world_size=max_world_size)
    if second := next(blocks, None):
        draw: Draw = partial(_draw, seed, paths, max_world_size)
        for block, texts in _drawn_ahead(draw, itertools.chain([second], blocks)):
            yield from zip(block, map(Case.from_json, texts), strict=True)


def _draw(
    seed: int, paths: tuple[str, ...] | None, max_world_size: int, indices: Sequence[int]
) -> list[bytes]:
    return [case_at(seed, i, paths=paths, max_world_size=max_world_size).to_json() for i in indices]


def _drawn_ahead(draw: Draw, blocks: Iterable[Sequence[int]]) -> Iterator[tuple[Sequence[int], list[bytes]]]:
    """Each block with its cases."""
    processes = min(MOST_PROCESSES, os.cpu_count() or 1)
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_prepare)
    started = deque[tuple[Sequence[int], Future[list[bytes]]]]()
    ahead = iter(blocks)
    try:
        while True:
            for block in itertools.islice(ahead, processes * BLOCKS_AHEAD - len(started)):
                started.append((block, pool.submit(draw, block)))
            if not started:
                return
            yield started[0][0], started[0][1].result()
            started.popleft()
    except BrokenExecutor:  # somebody killed a process, or there is no memory for it: go on without
        for block in itertools.chain((block for block, _ in started), ahead):
            yield block, draw(block)
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    """Makes a drawing process end with the one that started it, however that ends, and only then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
