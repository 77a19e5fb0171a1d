"""Groups of cases that share processes: starting these takes a second, and compiling a program for XLA two.

Consecutive programs of operators are a group, and so are the inputs of one case. Every other case is a group
of one. What follows a run, such as the evidence for a finding, runs each case alone.
"""

import time
from collections.abc import Iterable, Iterator, Sequence

from difftest.campaign.campaign import BackendRun, Campaign, refused, run_backend, run_key
from difftest.cases.case import Case
from difftest.cases.inputs import without_input
from difftest.cases.options import ACTS
from difftest.ground.clock import utc_now
from difftest.ground.errors import InfrastructureError, NoTimeError

MOST_CASES = 20
"""How many cases a group has at most.

The start of the processes is then a small part of the time, and a group takes seconds, so that several
workers are done at nearly the same time.
"""


def can_share(one: Case, other: Case) -> bool:
    """Whether cases may run one after the other in the same processes.

    An XLA program that does not begin by enabling SPMD needs a process that nothing has enabled it in. One
    that begins in an unusual order otherwise shares a process with inputs of its own case alone.
    """
    if without_input(one) == without_input(other):
        return one.start.acts[0] == "spmd"
    return one.model.is_program and other.model.is_program and one.start.acts == other.start.acts == ACTS


def grouped(cases: Iterable[tuple[int, Case]]) -> Iterator[Sequence[tuple[int, Case]]]:
    """The cases with their indices, in groups and in order."""
    group = list[tuple[int, Case]]()
    for index, case in cases:
        if group and (len(group) == MOST_CASES or not can_share(group[-1][1], case)):
            yield group
            group = []
        group.append((index, case))
    if group:
        yield group


def run_each(
    campaign: Campaign, cases: Sequence[Case], backend: str
) -> Sequence[BackendRun | InfrastructureError]:
    """A run of each case on a backend, or the error with which the last try ended.

    Several cases run as a group. One whose run the infrastructure spoils, or the backend refuses, is tried
    again alone.
    """
    together = [case for case in cases if run_key(case, backend, {}) not in campaign.set_aside]
    runs = dict[str, BackendRun]()
    if campaign.execute_group is not None and len(together) > 1:
        started, clock = utc_now().isoformat(), time.monotonic()
        try:
            outcomes = campaign.execute_group(together, backend, {})
        except NoTimeError as error:  # there is none for single runs either
            return [campaign.set_aside.get(run_key(case, backend, {}), error) for case in cases]
        except InfrastructureError:
            outcomes = []
        seconds = (time.monotonic() - clock) / len(together)
        runs = {
            case.id: BackendRun(backend=backend, outcome=outcome, started=started, seconds=seconds)
            for case, outcome in zip(together, outcomes, strict=False)
            if not isinstance(outcome, InfrastructureError) and not refused(outcome)
        }
    return [runs.get(case.id) or _alone(campaign, case, backend) for case in cases]


def _alone(campaign: Campaign, case: Case, backend: str) -> BackendRun | InfrastructureError:
    try:
        return run_backend(campaign, case, backend)
    except InfrastructureError as error:
        return error
