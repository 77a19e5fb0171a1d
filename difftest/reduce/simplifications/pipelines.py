"""Plainer pipelines: none on one device, fewer stages, few microbatches of as many rows each."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.cases.pipelining import AXIS, SINGLE
from difftest.reduce.candidate import Candidate, Simplification, smaller, tried

ORDER = 2


def no_pipeline(case: Case) -> Iterator[Candidate]:
    """On one device a pipeline is nothing."""
    if case.staged and case.world_size == 1:
        yield from tried("", lambda: msgspec.structs.replace(case, pipeline=msgspec.UNSET))


def one_stage_a_rank(case: Case) -> Iterator[Candidate]:
    """The stages of a rank together, in a schedule for that, or in the same one."""
    ranks = case.layout.mesh.size(AXIS)
    if case.staged and case.staged.stages > ranks > 1:
        for fields in ({"schedule": "GPipe"}, {}):
            cuts = case.staged.cuts[: ranks - 1]
            yield from tried(f"{case.staged.stages} stages", partial(_piped, case, cuts=cuts, **fields))


def plainer_pipeline(case: Case) -> Iterator[Candidate]:
    """Tensors between stages, sums over microbatches, and the plainest schedule."""
    if case.staged and case.world_size > 1:
        for name, fields in case.staged.settings():
            yield from tried(f"pipeline {name}", partial(_piped, case, **fields))


def fewer_microbatches(case: Case) -> Iterator[Candidate]:
    """As many as there are stages, where every rank has one, or two."""
    if case.staged and case.world_size > 1:
        least = case.staged.stages if case.staged.schedule in SINGLE else 2
        number = case.staged.microbatches
        yield from smaller(
            f"{number} microbatches",
            number,
            tuple(dict.fromkeys((least, case.staged.stages))),
            lambda few: _piped(case, microbatches=few),
        )


def even_microbatches(case: Case) -> Iterator[Candidate]:
    """As many rows in each."""
    if case.staged and case.world_size > 1:
        unit = case.staged.microbatches * case.layout.data_ranks
        if (rows := case.part_rows % unit) and case.part_rows > unit:
            words = f"{case.part_rows} rows, {rows} of them beyond {case.staged.microbatches} microbatches"
            batch = case.part_rows // unit * unit * case.training.accumulation
            yield from tried(words, partial(case.changed, "data", batch=batch))


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    no_pipeline,
    one_stage_a_rank,
    plainer_pipeline,
    fewer_microbatches,
    even_microbatches,
)


def _piped(case: Case, **fields: Any) -> Case:  # noqa: ANN401  fields of `Pipeline`
    assert case.staged  # noqa: S101  asked above
    return msgspec.structs.replace(case, pipeline=msgspec.structs.replace(case.staged, **fields))
