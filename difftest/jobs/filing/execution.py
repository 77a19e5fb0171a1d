"""What runs the cases of one finding, and the Python that runs its script.

A backend in an environment of its own, as `torch_dtensor@newest`, runs on workers that have that Python. Any
other runs in this environment.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

from difftest.campaign.campaign import ORACLE, Campaign, Execute
from difftest.cases.case import Case
from difftest.ground.errors import UsageError
from difftest.ground.plugins import IN
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.campaign.cluster import on_cluster
from difftest.judge.outcome import Outcome

Machine: TypeAlias = Callable[[FindingTarget], AbstractContextManager[Campaign]]
"""Opens what runs the cases of a finding."""


def machine(name: str, workers: int | None) -> Machine:
    """A machine with so many workers for the command `name`; None means the number of CPUs."""

    @contextmanager
    def opened(subject: FindingTarget) -> Iterator[Campaign]:
        from workers.backends import candidates

        backend = subject.finding.divergence.backend
        backends = candidates() | candidates((backend,))
        with on_cluster(backends, workers=workers, required=(ORACLE, backend), working=name) as cluster:
            yield cluster.campaign(name, subject.corpus)

    return opened


@contextmanager
def executing(subject: FindingTarget, opened: Machine, *, is_open: bool = False) -> Iterator[Execute]:
    """What runs a case of the finding: this process, or `opened` for a backend of another environment.

    Where that `is_open` already, it runs all: its runs end with the command's time.
    """
    if IN not in subject.finding.divergence.backend and not is_open:
        yield here
        return
    with opened(subject) as campaign:
        yield campaign.execute


def here(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
    """A run in processes of this environment."""
    from workers.isolate import sandbox

    return sandbox.run(case, backend, options=options)


def python_of(backend: str) -> str:
    """The Python that runs the scripts of a backend; `UsageError` where it is not on this machine."""
    from workers.cluster import environments

    if IN not in backend:
        return sys.executable
    python = environments.of(backend, environments.configured() or ()).python
    if python is None or not Path(python).is_file():
        where = f"its Python is {python}" if python else "it names no Python"
        msg = f"scripts for {backend} need its environment, which is not on this machine: {where}"
        raise UsageError(msg)
    return python
