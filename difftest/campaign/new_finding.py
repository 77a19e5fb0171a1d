"""What a new divergence must show before it is a finding: that it comes back, and where it stands in the 2 x 2.

Only a divergence that the corpus does not know pays for these runs.
"""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from difftest.campaign.again import rerun
from difftest.campaign.campaign import ORACLE, Campaign, Run
from difftest.campaign.case_run import Examined
from difftest.campaign.memo import Once
from difftest.cases.case import Case
from difftest.errors import InfrastructureError
from difftest.judge.blame import LAYER, Square, layer, verdict
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.records.finding import Finding

T = TypeVar("T")
REPEATS = 2
"""How often a new divergence is run again in fresh processes before it is believed."""


def new_finding(campaign: Campaign, examined: Examined, divergence: Divergence, ran: Run) -> Finding:
    """A new divergence is run again, and placed in the 2 x 2, before it becomes a finding; the oracle is run anew too, once a case."""
    campaign, case = (
        dataclasses.replace(campaign, execute=Once(campaign.execute, alone=ORACLE)),
        examined.case,
    )
    stable, square = _repeated(campaign, case, divergence), _square(campaign, examined, divergence)
    around = _consequences(examined, divergence) | _beside(campaign, examined, divergence)
    return Finding(
        fingerprint=divergence.fingerprint,
        divergence=divergence,
        blame=verdict(divergence.side, square, stable=stable),
        evidence=_told(square) | _deciding(campaign, case, divergence, stable) | around,
        hits=1,
        case=case.id,
        paths=(case.path,),
        stable=stable,
        environment=dict(ran.outcome.environment),
        first_seen=ran.started,
        last_seen=ran.started,
    )


def _repeated(campaign: Campaign, case: Case, divergence: Divergence) -> tuple[int, int]:
    """How often the divergence came back, of the runs that could be told of; none where infrastructure or the oracle failed."""
    repeats = _at_once(
        campaign, [partial(_compared, campaign, case, divergence.backend, divergence)] * REPEATS
    )
    told = [
        comparison
        for comparison in repeats
        if comparison is not None and comparison.verdict != "inconclusive"
    ]
    return sum(_shows(comparison, divergence) for comparison in told), len(told)


def _told(square: Square) -> dict[str, str]:
    return {name: _word(diverges=value) for name, value in dataclasses.asdict(square).items()}


def _deciding(
    campaign: Campaign, case: Case, divergence: Divergence, stable: tuple[int, int]
) -> dict[str, str]:
    """The options that decide: with one of them back at its default, the run agrees with the oracle. Asked only of what came back."""
    if not stable[0]:
        return {}
    options = dict(case.put_back())
    bad = _at_once(
        campaign,
        [partial(_bad, campaign, plain, divergence.backend, divergence) for plain in options.values()],
    )
    deciding = [option for option, diverges in zip(options, bad, strict=True) if diverges is False]
    return {"decided by": ", ".join(deciding)} if deciding else {}


def _consequences(examined: Examined, divergence: Divergence) -> dict[str, str]:
    """What else the checks say of the same run: most often what the first divergence led to."""
    later = [
        d.check for d in examined.comparisons[divergence.backend].divergences if d.check != divergence.check
    ]
    return {"then": ", ".join(dict.fromkeys(later))} if later else {}


def _beside(campaign: Campaign, examined: Examined, divergence: Divergence) -> dict[str, str]:
    """Who of the same side computed this very case rightly, who shows the same fault, and which layer of the side that leaves at fault."""
    bad = {
        name: _shares(examined.comparisons.get(name), divergence)
        for name in sorted(campaign.siblings(divergence.backend))
    }
    right, wrong = ([name for name in bad if bad[name] is diverges] for diverges in (False, True))
    frameworks = [[campaign.backends[name].FRAMEWORK for name in names] for names in (right, wrong)]
    fault = layer(divergence.side, campaign.backends[divergence.backend].FRAMEWORK, *frameworks)
    told = {"right beside it": ", ".join(right), "wrong beside it": ", ".join(wrong), LAYER: fault}
    return {name: value for name, value in told.items() if value}


def _at_once(campaign: Campaign, asked: Sequence[Callable[[], T]]) -> list[T]:
    """The answers to several questions, asked as many at a time as the campaign has workers."""
    with ThreadPoolExecutor(campaign.workers) as threads:
        return list(threads.map(lambda ask: ask(), asked))


def _word(*, diverges: bool | None) -> str:
    return "no telling" if diverges is None else "diverges" if diverges else "agrees"


def _square(campaign: Campaign, examined: Examined, divergence: Divergence) -> Square:
    """Runs what the 2 x 2 still lacks: both sides on one device. Only a new divergence pays for it."""
    others = _other_side(campaign, examined, divergence.side)[:1]
    single, names = examined.case.unsharded(), (divergence.backend, *others)
    asked = [
        partial(_bad, campaign, single, name, divergence, examined.comparisons[name].device) for name in names
    ]
    bad = _at_once(campaign, asked)
    return Square(
        single=bad[0],
        other=_shares(examined.comparisons[others[0]], divergence) if others else None,
        other_single=bad[1] if others else None,
    )


def _other_side(campaign: Campaign, examined: Examined, side: str) -> Sequence[str]:
    """The other side's backends that ran this case, those that agreed with the oracle first."""
    ran = [name for name in examined.comparisons if side != campaign.backends[name].SIDE]
    return sorted(ran, key=lambda name: examined.comparisons[name].verdict != "agree")


def _bad(
    campaign: Campaign, case: Case, backend: str, divergence: Divergence, device: str = ""
) -> bool | None:
    """Whether `case` shows the same fault; None where nothing can be told, as where it ran on another `device`, GPUs being too few."""
    if campaign.backends[backend].unsupported(case):
        return None
    seen = _compared(campaign, case, backend, divergence)
    return None if seen and seen.elsewhere(device) else _parts(seen, divergence)


def _parts(comparison: Comparison | None, divergence: Divergence) -> bool | None:
    """Whether a run shows the same fault; None where there is no telling: it ended otherwise, or nothing could be compared."""
    if comparison is None or comparison.verdict == "inconclusive":
        return None
    if comparison.verdict == "agree":
        return False
    first = comparison.divergences[0]
    alike = (first.check, first.symptom, first.cause) == (
        divergence.check,
        divergence.symptom,
        divergence.cause,
    )
    return True if alike else None


def _shares(comparison: Comparison | None, divergence: Divergence) -> bool | None:
    """As `_parts`, of another backend's run: there the damage must look alike too, for two faults can spoil the same tensors."""
    told = _parts(comparison, divergence)
    return None if told and comparison and comparison.divergences[0].nature != divergence.nature else told


def _shows(comparison: Comparison, divergence: Divergence) -> bool:
    return any(d.fingerprint == divergence.fingerprint for d in comparison.divergences[:1])


def _compared(campaign: Campaign, case: Case, backend: str, divergence: Divergence) -> Comparison | None:
    """A run made for a finding, in fresh processes, beside the oracle; None when infrastructure failed."""
    try:
        return rerun(campaign, case, backend, check=divergence.check)
    except InfrastructureError:
        return None
