"""Whether an outcome answers the request that it is returned for: a mix-up proves nothing about a backend."""

import uuid

from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.judge.outcome import Origin, Outcome


def new_request(case: Case, backend: str, number: str = "") -> Origin:
    """A request to run `case` on `backend`; without a `number` it gets one that no other has."""
    return Origin(case=case.id, backend=backend, number=number or uuid.uuid4().hex)


def require_answer(outcome: Outcome, request: Origin) -> None:
    """Raises `InfrastructureError` unless `outcome` is the result of `request`, and of no other."""
    origin = outcome.origin
    if origin == request:
        return
    returned = f"that of case {origin.case} on {origin.backend}" if origin else "of unknown origin"
    earlier = ", of another request" if origin and origin.number != request.number else ""
    msg = f"the result for case {request.case} on {request.backend} is {returned}{earlier}"
    raise InfrastructureError(msg)
