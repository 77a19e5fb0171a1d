"""A watch over releases: every known fault's script and some cases on each, and what that changed.

One release after another, and for each what is cheap first: scripts of jaxlib and torch, then cases. What was
tried is in the journal, so that the same command continues. A script that breaks, an environment that cannot
be made and a case without a verdict are recorded as such, and the rest goes on.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from difftest.campaign.budget import until
from difftest.campaign.memo import oracle_once
from difftest.findings.faults import KnownFault, KnownScript, release_order
from difftest.findings.flips import JAXLIB, Flip, Tried, flips, listed
from difftest.ground.clock import utc_now
from difftest.ground.errors import InfrastructureError, NoTimeError, UsageError
from difftest.ground.plugins import within
from difftest.jobs.campaign.cluster import on_cluster
from difftest.jobs.filing.script_runs import SECONDS, ending_at
from difftest.jobs.watch.case_states import case_state
from difftest.jobs.watch.journal import Journal
from difftest.jobs.watch.places import ReleasePython, place
from difftest.jobs.watch.releases import Release
from difftest.jobs.watch.sample import Sample, of_corpus, of_faults, spread
from difftest.jobs.watch.script_states import PARTITIONERS, ScriptState, partitioners, variables_of
from difftest.jobs.watch.warm_scripts import WarmScripts, warm_scripts
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.finding import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is watched, and how long: until `end` (monotonic).

    `sample` is the number of cases for each release, from `corpus` or, without one, from the known faults.
    `address` is that of a further package index. A script may take `script_seconds`. `say` prints a line.
    """

    folder: Path
    releases: tuple[Release, ...]
    faults: Sequence[KnownFault]
    sample: int = 0
    corpus: Path | None = None
    address: str = ""
    end: float = float("inf")
    workers: int | None = None
    script_seconds: float = SECONDS
    say: Callable[[str], None] = print


@dataclass(slots=True, kw_only=True)
class Watched:
    """What a watch has shown so far: `problems` are releases that could not be looked at, with the reason.

    `left`: the time was over before everything was tried.
    """

    flips: tuple[Flip, ...] = ()
    tried: tuple[Tried, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)
    left: bool = False


def watch(request: Watch) -> Watched:
    """Runs what was not tried yet. The files of reports are not written here."""
    journal, watched = Journal(request.folder), Watched()
    try:
        with ending_at(request.end):
            for release in sorted(
                request.releases, key=lambda release: (release.package, release_order(release.version))
            ):
                _one(request, journal, watched, release, tuple(_scripts(request.faults, release)))
            for release in _known_before(request):
                _one(request, journal, watched, release, ())
    except NoTimeError:
        watched.left = True
    watched.tried = (*_before(request, journal), *journal.tried)
    watched.flips = flips(watched.tried)
    return watched


def _known_before(request: Watch) -> Iterator[Release]:
    """The newest release of each package that the list knows before those that are watched.

    What scripts say of it is in the list; cases run on it, so that there is something to compare with.
    """
    for package in sorted({release.package for release in request.releases} if request.sample else ()):
        watched = (release.version for release in request.releases if release.package == package)
        there = (tried.release for tried in listed(request.faults) if tried.package == package)
        if newest := _newest_before(watched, there):
            yield Release(package=package, version=newest)


def _newest_before(watched: Iterable[str], there: Iterable[str]) -> str:
    """The newest release of those `there` before the first that is watched; empty where there is none."""
    first = min(map(release_order, watched))
    return max(
        (release for release in there if release_order(release) < first), key=release_order, default=""
    )


def _one(
    request: Watch, journal: Journal, watched: Watched, release: Release, every: Sequence["_Script"]
) -> None:
    """The scripts `every` and the cases of one release."""
    scripts = [script for script in every if script.tried not in journal]
    cases = [sample for sample in _cases(request, release) if _of_case(release, sample) not in journal]
    if not (scripts or cases):
        return
    try:
        where = place(release, request.say, request.address)
        request.say(f"{release}: {len(scripts)} scripts and {len(cases)} cases, with {where.python}")
        _run_scripts(request, journal, release, where, scripts)
        if cases:
            _run_cases(request, journal, release, where, cases)
    except NoTimeError:
        raise
    except (InfrastructureError, UsageError) as error:
        watched.problems[str(release)] = str(error)
        request.say(f"{release}: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Script:
    """A script of a fault to run; `tried` lacks what it will say."""

    fault: KnownFault
    script: KnownScript
    tried: Tried


def _scripts(faults: Sequence[KnownFault], release: Release) -> Iterator[_Script]:
    for fault in faults:
        if release.package == JAXLIB and (script := fault.shown_on_jax_by):
            under = partitioners(script)
        elif fault.needs == release.package and fault.script.is_file():
            script, under = fault.shown_by, ("",)
        else:
            continue
        for partitioner in under:
            tried = Tried(
                package=release.package,
                release=release.version,
                kind="script",
                name=fault.name,
                state="unclear",
                partitioner=partitioner,
            )
            yield _Script(fault=fault, script=script, tried=tried)


def _run_scripts(
    request: Watch, journal: Journal, release: Release, where: ReleasePython, scripts: Sequence[_Script]
) -> None:
    """Runs scripts, those with the same variables in forks of the same Python."""
    expected = _expected(request, journal, release)
    for partitioner in dict.fromkeys(script.tried.partitioner for script in scripts):
        own = [script for script in scripts if script.tried.partitioner == partitioner]
        variables = {**variables_of(own[0].fault, where.python), **PARTITIONERS[partitioner]}
        with warm_scripts(where.python, variables, request.script_seconds) as warm:
            for script in own:
                if time.monotonic() > request.end:
                    msg = "the time is over"
                    raise NoTimeError(msg)
                result = _said(warm, script, expected.get(script.tried.subject))
                if result is None:
                    continue
                tried = _as_of_now(script.tried, result.state, result.note)
                journal.add(tried)
                words = f"{tried.name} {tried.partitioner}".rstrip()
                request.say(f"  {tried.state:<8} {words}{_reason(tried)}")


def _said(warm: WarmScripts, script: _Script, expected: State | None) -> ScriptState | None:
    """What a script says; whatever breaks while it runs leaves it unclear."""
    try:
        return warm.state(script.script, expected)
    except NoTimeError:
        raise
    except (InfrastructureError, OSError, ValueError) as error:
        return ScriptState(state="unclear", note=f"{type(error).__name__}: {error}")


def _expected(request: Watch, journal: Journal, release: Release) -> Mapping[tuple[str, ...], State]:
    """What each script says unless the release changed it: what the one before it said.

    Of the first release it is what the list has. So whatever changed is shown by a script that ran alone.
    """
    every = [tried for tried in (*listed(request.faults), *journal.tried) if tried.package == release.package]
    earlier = [tried for tried in every if release_order(tried.release) < release_order(release.version)]
    in_order = sorted(earlier or every, key=lambda tried: release_order(tried.release))
    return {tried.subject: tried.state for tried in in_order}


def _cases(request: Watch, release: Release) -> tuple[Sample, ...]:
    if release.package == JAXLIB or not request.sample:
        return ()
    if request.corpus:
        return spread(of_corpus(Corpus(request.corpus), release.package), request.sample)
    return spread(of_faults(request.faults, release.package), request.sample)


def _of_case(release: Release, sample: Sample) -> Tried:
    case, backend = sample
    return Tried(
        package=release.package,
        release=release.version,
        kind="case",
        name=case.id,
        state="unclear",
        backend=backend,
    )


def _run_cases(
    request: Watch, journal: Journal, release: Release, where: ReleasePython, cases: Sequence[Sample]
) -> None:
    """Runs cases on backends in the environment of a release, each beside the oracle of this one."""
    from workers.backends import candidates

    names = {backend: within(backend, where.environment) for _, backend in cases}
    with on_cluster(candidates(tuple(names.values())), workers=request.workers) as cluster:
        cluster.cut_at(request.end)
        campaign = oracle_once(until(cluster.campaign("watch", Corpus(request.folder / CORPUS)), request.end))
        for case, backend in cases:
            result = case_state(campaign, case, names[backend])
            empty = _of_case(release, (case, backend))
            tried = _as_of_now(empty, result.state, result.note, result.shown)
            journal.add(tried)
            words = f"case {tried.name} on {backend} {tried.shown}".rstrip()
            request.say(f"  {tried.state:<8} {words}{_reason(tried)}")


def _reason(tried: Tried) -> str:
    return f": {tried.note}" if tried.state == "unclear" else ""


def _as_of_now(tried: Tried, state: State, note: str, shown: str = "") -> Tried:
    when = utc_now().isoformat(timespec="seconds")
    return msgspec.structs.replace(tried, state=state, note=note, shown=shown, when=when)


def _before(request: Watch, journal: Journal) -> Iterator[Tried]:
    """What the list says of the newest release before the first that was tried, of each package."""
    every = tuple(listed(request.faults))
    there = {(tried.package, tried.release) for tried in journal.tried if tried.kind == "script"}
    for package in {package for package, _ in there}:
        newest = _newest_before(
            (release for name, release in there if name == package),
            (tried.release for tried in every if tried.package == package),
        )
        yield from (tried for tried in every if (tried.package, tried.release) == (package, newest))
