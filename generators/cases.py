"""Cases: the strategy, and the case at an index of a seed.

The one idea: Hypothesis has a public function that turns bytes into a case (`fuzz_one_input`), so bytes
hashed from (seed, index) make cases addressable. Case i of a seed is the same in every process and thread
with the same plug-ins and the same version of Hypothesis, whether it is generated alone or in a sequence. A
campaign can therefore be split among machines, and resumed, by index.
"""

import dataclasses
import functools
import hashlib
import itertools
import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case, Data
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.layout import Mesh
from difftest.ground.errors import UsageError
from generators.chances import always
from generators.explore import BLOCK, POOL, Cost, Walk, cost_of, first_cost
from generators.features import features
from generators.inputs import with_input
from generators.layers.flash_attention import draw_shared_heads
from generators.operators.drawn import draw_program
from generators.options import kernels, replications, spelled, starts
from generators.paths import chosen, load
from generators.sequence import taking_turns
from generators.training import draw_batch, draw_training, draw_wire_type, dtypes, ignored_shares, regimes

MOST_SEED = 2**63 - 1
BYTES_PER_CASE = 4096
BLOCKS_REMEMBERED = 64

Decode: TypeAlias = Callable[[bytes, Cost], list[Case | None]]
"""Turns bytes into a case, or None where it begins unlike the costs; no item where the bytes ran out."""

_DRAWING = threading.RLock()
"""Held while a case is chosen.

All threads share walks and decoders: two at once would add a case twice, or take each other's case.
"""


@st.composite
def cases(draw: st.DrawFn, *, paths: Iterable[str] | None = None, max_world_size: int = 8) -> Case:
    """Cases on one of `paths` (None: of all) with at most `max_world_size` ranks."""
    name = draw(st.sampled_from(chosen(paths)))
    mesh = draw(load(name).meshes(max_world_size=max_world_size))
    case = cast("Case", _draw_case(draw, name, mesh, lambda _cost: True))
    return spelled(case, draw(st.randoms(use_true_random=False)))


@st.composite
def _rivals(
    draw: st.DrawFn, *, path: str, meshes: SearchStrategy[Mesh], competes: Callable[[Cost], bool]
) -> Case | None:
    return _draw_case(draw, path, draw(meshes), competes)


def _draw_case(draw: st.DrawFn, name: str, mesh: Mesh, competes: Callable[[Cost], bool]) -> Case | None:
    """A case, or None as soon as what is drawn of its cost does not compete: completing it would be waste."""
    path = load(name)
    purpose = draw(path.purposes(mesh=mesh))
    cost = first_cost(learnable=purpose == "learnable", exact=purpose == "exact", ranks=mesh.world_size)
    if not competes(cost):
        return None
    model = draw(path.models(mesh=mesh, purpose=purpose))
    layout = draw(path.layouts(model=model, mesh=mesh))
    if model.is_program:
        return draw_program(draw, path=name, model=model, layout=layout)
    dtype = draw(dtypes(purpose=purpose))
    if purpose == "ordinary" and not competes((*cost, dtype)):  # the dtype of an exact case is drawn later
        return None
    regime = draw(regimes(model=model, purpose=purpose, dtype=dtype))
    training = draw_training(draw, model=model, purpose=purpose, dtype=dtype, regime=regime)
    batch = draw_batch(draw, model=model, layout=layout, training=training, exact=purpose == "exact")
    ignored = draw(ignored_shares(loss=training.loss, targets=batch * max(1, model.sequence)))
    data = Data(batch=batch, regime=regime, ignored=ignored, learnable=purpose == "learnable")
    replication = draw(replications(layout=layout, accumulation=training.accumulation))
    start = draw(starts(accumulation=1 if model.statistics() else training.accumulation))
    seed = draw(st.integers(0, MOST_SEED))
    case = Case(path=name, model=model, layout=layout, training=training, data=data, dtype=dtype, seed=seed)
    case = draw_wire_type(draw, case=case)
    sdpa = draw(kernels(model=case.model))
    model = draw_shared_heads(draw, model=case.model, mesh=case.layout.mesh)
    case = msgspec.structs.replace(case, model=model, replication=replication, start=start, sdpa=sdpa)
    return draw(with_what_the_path_draws(case=case))


@st.composite
def with_what_the_path_draws(draw: st.DrawFn, *, case: Case) -> Case:
    """The case with what only its path draws, and with features where the path has them."""
    path = load(case.path)
    case = draw(path.completed(case=case))
    return msgspec.structs.replace(case, features=draw(features(case=case))) if path.HAS_FEATURES else case


def case_at(
    seed: int, number: CaseNumber | int, *, paths: Iterable[str] | None = None, max_world_size: int = 8
) -> Case:
    """The case of `seed` with a number, or with one that records keep (`CaseNumber.of`): 7 is case 7.

    Raises `UsageError` for a seed or a number out of range, and for an unknown path.
    """
    at = number if isinstance(number, CaseNumber) else CaseNumber.of(number)
    if (
        not 0 <= seed <= MOST_SEED
        or at.index < 0
        or at.input < 0
        or at.series not in {Series.CASE, Series.PROGRAM}
    ):
        allowed = f"seed 0 to {MOST_SEED}, a generated case from 0"
        msg = f"seed is {seed} and the case is {number}; allowed: {allowed}"
        raise UsageError(msg)
    if at.input:
        first = case_at(seed, dataclasses.replace(at, input=0), paths=paths, max_world_size=max_world_size)
        return with_input(first, at.input, case_seed(seed, at.recorded))
    names, index = taking_turns(at.series, chosen(paths)), at.index
    block = index // BLOCK
    if program := _scheduled(seed, index, names, max_world_size):
        return spelled(program, spelling_stream(seed, index))
    with _DRAWING:
        walk = _walk(seed, block, names, max_world_size)
        for turn in range(block * BLOCK + len(walk.chosen), index + 1):
            program = _scheduled(seed, turn, names, max_world_size)
            path = names[turn % len(names)]
            walk.choose(
                [program] if program else pool_at(seed, turn, path=path, max_world_size=max_world_size)
            )
        return spelled(walk.chosen[index % BLOCK], spelling_stream(seed, index))


def _scheduled(seed: int, index: int, names: tuple[str, ...], max_world_size: int) -> Case | None:
    """The case at `index` if its path has a schedule, which counts the cases of that path alone."""
    turn, position = divmod(index, len(names))
    scheduled = load(names[position]).scheduled(seed=seed, index=turn, max_world_size=max_world_size)
    if isinstance(scheduled, Mesh):
        with _DRAWING:
            decode = _decoder(names[position], max_world_size, scheduled)
            scheduled = cast("Case", _drawn(decode, seed, index, 0))
    return msgspec.structs.replace(scheduled, seed=case_seed(seed, index)) if scheduled else None


def pool_at(seed: int, index: int, *, path: str, max_world_size: int = 8) -> list[Case]:
    """The candidates on `path` from which `case_at` chooses one, in no particular order but for the first.

    Without those that do not compete with the first.
    """
    wanted = case_seed(seed, index)
    with _DRAWING:
        decode = _decoder(path, max_world_size)
        first = cast("Case", _drawn(decode, seed, index, 0))
        like = cost_of(first)
        others = (_drawn(decode, seed, index, member, like) for member in range(1, POOL))
        return [msgspec.structs.replace(case, seed=wanted) for case in (first, *others) if case is not None]


def spelling_stream(seed: int, index: int) -> random.Random:
    """From which the usual forms of case `index` are drawn."""
    return random.Random(_digest("spelling", seed, index))  # noqa: S311  not secret


def case_seed(seed: int, index: int) -> int:
    """The seed of the case with an index, or a recorded number: its numbers are its own."""
    return int.from_bytes(_digest("case", seed, index)[:8]) & MOST_SEED


@functools.lru_cache(maxsize=BLOCKS_REMEMBERED)
def _walk(seed: int, block: int, paths: tuple[str, ...], max_world_size: int) -> Walk:  # noqa: ARG001  keys
    """The walk of one block, as far as it got; continuing it always gives the same cases."""
    return Walk()


def _drawn(decode: Decode, seed: int, index: int, member: int, like: Cost = ()) -> Case | None:
    """The case of the first bytes that suffice for one; few bytes run out before the case is complete."""
    tried = (decode(case_bytes(seed, index, member, attempt), like) for attempt in itertools.count())
    return next(drawn for drawn in tried if drawn)[0]


def case_bytes(*place: int) -> bytes:
    """The bytes from which a case is drawn, for a seed, an index, a candidate and an attempt."""
    return random.Random(_digest("bytes", *place)).randbytes(BYTES_PER_CASE)  # noqa: S311  not secret


def _digest(purpose: str, *place: int) -> bytes:
    return hashlib.sha256(" ".join([purpose, *map(str, place)]).encode()).digest()


@functools.cache
def _decoder(path: str, max_world_size: int, mesh: Mesh | None = None) -> Decode:
    """The function that turns bytes into a case on `path`, and on `mesh` if that is fixed.

    It is made once: making it costs more than a case.
    """
    drawn, wanted = list[Case | None](), list[Cost]()
    meshes = load(path).meshes(max_world_size=max_world_size) if mesh is None else always(mesh)

    def competes(cost: Cost) -> bool:
        return wanted[0][: len(cost)] in {cost, ()}

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_rivals(path=path, meshes=meshes, competes=competes))
    def collect(case: Case | None) -> None:
        drawn.append(case)

    def decode(data: bytes, like: Cost) -> list[Case | None]:
        drawn.clear()
        wanted[:] = [like]
        cast("Any", collect).hypothesis.fuzz_one_input(data)
        return drawn

    return decode
