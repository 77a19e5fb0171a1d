"""Groups of cases that share processes: starting these takes a second, and compiling a program for XLA two.

Consecutive programs of operators are a group, and so are the inputs of one case. Every other case is a group
of one. Backends that compile the same program share processes too (`Campaign.follows`). What follows a run,
such as the evidence for a finding, runs each case alone.
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


def sharing(campaign: Campaign) -> list[tuple[str, ...]]:
    """The campaign's backends, those together of which one follows the other in the same processes."""
    followers = {name: leader for name, leader in campaign.follows.items() if leader in campaign.backends}
    leaders = (name for name in campaign.backends if name not in followers)
    return [(name, *(other for other in followers if followers[other] == name)) for name in leaders]


def run_each(
    campaign: Campaign, wanted: Sequence[tuple[Case, str]]
) -> Sequence[BackendRun | InfrastructureError]:
    """A run of each case on its backend, or the error with which the last try ended.

    Several runs whose cases can share processes are a group. One that the infrastructure spoils, or the
    backend refuses, is tried again alone.
    """
    together = [one for one in wanted if run_key(*one, {}) not in campaign.set_aside]
    runs = dict[tuple[str, str], BackendRun]()
    can = len(together) > 1 and all(can_share(together[0][0], case) for case, _ in together)
    if campaign.execute_group is not None and can:
        started, clock = utc_now().isoformat(), time.monotonic()
        try:
            outcomes = campaign.execute_group(together, {})
        except NoTimeError as error:  # there is none for single runs either
            return [campaign.set_aside.get(run_key(*one, {}), error) for one in wanted]
        except InfrastructureError:
            outcomes = []
        seconds = (time.monotonic() - clock) / len(together)
        runs = {
            (case.id, name): BackendRun(backend=name, outcome=outcome, started=started, seconds=seconds)
            for (case, name), outcome in zip(together, outcomes, strict=False)
            if not isinstance(outcome, InfrastructureError) and not refused(outcome)
        }
    return [runs.get((case.id, name)) or _alone(campaign, case, name) for case, name in wanted]


def _alone(campaign: Campaign, case: Case, backend: str) -> BackendRun | InfrastructureError:
    try:
        return run_backend(campaign, case, backend)
    except InfrastructureError as error:
        return error
