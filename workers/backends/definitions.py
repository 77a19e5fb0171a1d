"""The definitions: what training is by papers and documentation, computed by numpy and JAX in float64.

It runs the twins of cases (`difftest.cases.twins`). Where it differs from the oracle, torch is wrong on every
device: operators, derivatives, compositions and optimizers of the oracle are torch's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.twins import no_twin
from difftest.ground import installed
from workers import sides
from workers.backends import oracle
from workers.references import definition

if TYPE_CHECKING:
    from workers.training.session import Session

TITLE = "the definitions in numpy and JAX"
SIDE = sides.DEFINITION
FRAMEWORK = ""
PROFILE = sides.REFERENCES
PRELOAD = (*oracle.PRELOAD, *(("jax",) if installed.version("jax") else ()))
processes = oracle.processes
environment = oracle.environment


def unsupported(case: Case) -> str | None:
    """Why a case has no definition here; it must be a twin."""
    return no_twin(case) or definition.lacks(case) or None


@contextmanager
def session(case: Case, rank: int, rendezvous: str) -> Iterator["Session"]:
    """Joins as the oracle does; what is kept of its run are the definitions beside it."""
    with oracle.session(case, rank, rendezvous) as joined:
        yield replace(joined, replay=lambda train, own: definition.defined(case, train(own)))
