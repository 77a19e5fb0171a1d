"""The evidence for a new finding's blame, from further runs of its case and of variants of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TypeVar

import msgspec

from difftest.campaign.again import rerun
from difftest.campaign.campaign import Campaign, Explanation
from difftest.campaign.case_run import CaseResult
from difftest.cases.case import Case
from difftest.cases.resets import deciding, form_resets, resets
from difftest.ground.errors import InfrastructureError
from difftest.judge.blame import LAYER, TwoByTwo, layer
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.facts import FailureFacts
from difftest.judge.outcome import Symptom
from difftest.judge.stage import STAGES
from difftest.records.evidence import CORRECT_SIBLINGS, DECIDED_BY, LATER_CHECKS, WRONG_SIBLINGS

T = TypeVar("T")


def two_by_two(campaign: Campaign, result: CaseResult, divergence: Divergence) -> TwoByTwo:
    """The 2 x 2 of {guilty side, other side} x {one device, the case's layout}.

    Runs what it lacks, both sides on one device.
    """
    placed = placed_by_what_ran(campaign, result, divergence)
    others = _other_side(campaign, result, divergence.side)[:1]
    single, names = result.case.unsharded(), (divergence.backend, *others)
    diverges = in_parallel(
        campaign,
        [
            partial(_diverges, campaign, single, name, divergence, result.comparisons[name].device)
            for name in names
        ],
    )
    return replace(placed, single=diverges[0], other_single=diverges[1] if others else None)


def placed_by_what_ran(campaign: Campaign, result: CaseResult, divergence: Divergence) -> TwoByTwo:
    """As much of `two_by_two` as the case's own runs say."""
    others = _other_side(campaign, result, divergence.side)[:1]
    other = _looks_alike(result.comparisons[others[0]], divergence) if others else None
    return TwoByTwo(single=None, other=other, other_single=None)


def deciding_options(campaign: Campaign, result: CaseResult, divergence: Divergence) -> dict[str, str]:
    """What decides: without one of these options, or of the framework's mechanisms, the run is right.

    It may show another fault that is known, for some cases have two. A case may take several usual forms.
    Where it shows the fault without all of them, none is tried alone. Mechanisms and the epsilon of norms are
    tried for wrong numbers alone.
    """
    case, wrong_numbers = result.case, divergence.symptom is Symptom.MISMATCH
    options, forms = dict((deciding if wrong_numbers else resets)(case)), dict(form_resets(case))
    if len(forms) > 1:
        plain = msgspec.structs.replace(case, spelling=msgspec.UNSET)
        if _diverges_without(campaign, plain, divergence) is not False:
            options = {name: reset for name, reset in options.items() if name not in forms}
    mechanisms = campaign.mechanisms.get(divergence.backend, {}) if wrong_numbers else {}
    runs = [partial(_diverges_without, campaign, plain, divergence) for plain in options.values()]
    runs += [partial(_numbers_differ, campaign, result, divergence, less) for less in mechanisms.values()]
    diverges = in_parallel(campaign, runs)
    decide = [name for name, wrong in zip((*options, *mechanisms), diverges, strict=True) if wrong is False]
    return {DECIDED_BY: ", ".join(decide)} if decide else {}


def known_if_decided(campaign: Campaign, case: Case, divergence: Divergence) -> tuple[str, ...]:
    """The options of the case which would make a known fault of the divergence if they decided.

    Empty where it is a known fault whatever decides.
    """
    explained = partial(campaign.explanation, divergence, case)
    if explained():
        return ()
    options = dict(deciding(case))
    if not explained(evidence={DECIDED_BY: ", ".join(options)}):
        return ()
    return tuple(option for option in options if explained(evidence={DECIDED_BY: option}))


def decided_elsewhere(
    campaign: Campaign, case: Case, divergence: Divergence, options: Iterable[str]
) -> tuple[str, ...]:
    """Those of the `options` that decide in a later case of a finding."""
    plain = dict(deciding(case))
    runs = {name: partial(_diverges_without, campaign, plain[name], divergence) for name in options}
    diverges = in_parallel(campaign, [*runs.values()])
    return tuple(name for name, wrong in zip(runs, diverges, strict=True) if wrong is False)


def later_checks(result: CaseResult, divergence: Divergence) -> dict[str, str]:
    """What else the checks report of the same run: most often consequences of the first divergence."""
    divergences = result.comparisons[divergence.backend].divergences
    checks = dict.fromkeys(d.check for d in divergences if d.check != divergence.check)
    return {LATER_CHECKS: ", ".join(checks)} if checks else {}


def siblings(campaign: Campaign, result: CaseResult, divergence: Divergence) -> dict[str, str]:
    """The side's backends that computed the case correctly or show the same fault, and the layer at fault."""
    wrong_by_name = {
        name: _looks_alike(result.comparisons.get(name), divergence)
        for name in sorted(campaign.siblings(divergence.backend))
    }
    correct = [name for name, wrong in wrong_by_name.items() if wrong is False]
    wrong = [name for name, wrong in wrong_by_name.items() if wrong]
    frameworks = [[campaign.backends[name].FRAMEWORK for name in names] for names in (correct, wrong)]
    words = {
        CORRECT_SIBLINGS: ", ".join(correct),
        WRONG_SIBLINGS: ", ".join(wrong),
        LAYER: layer(divergence.side, campaign.backends[divergence.backend].FRAMEWORK, *frameworks),
    }
    return {name: value for name, value in words.items() if value}


def in_parallel(campaign: Campaign, calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of `calls` in their order, as many at a time as the campaign has workers."""
    with ThreadPoolExecutor(campaign.workers) as threads:
        return list(threads.map(lambda call: call(), calls))


def rerun_or_none(
    campaign: Campaign,
    case: Case,
    backend: str,
    divergence: Divergence,
    environment: Mapping[str, str] | None = None,
) -> Comparison | None:
    """A run in fresh processes beside the oracle, compared; None where the infrastructure failed.

    The finding was believed before, whatever this run of its case or of a variant shows.
    """
    try:
        return rerun(campaign, case, backend, check=divergence.check, options=environment, believed=True)
    except InfrastructureError:
        return None


def _other_side(campaign: Campaign, result: CaseResult, side: str) -> Sequence[str]:
    """The other side's backends that ran this case, those that agreed with the oracle first."""
    names = [name for name in result.comparisons if side != campaign.backends[name].SIDE]
    return sorted(names, key=lambda name: result.comparisons[name].verdict != "agree")


def _diverges(
    campaign: Campaign, case: Case, backend: str, divergence: Divergence, device: str = ""
) -> bool | None:
    """Whether `case` shows the same fault on `backend`; None if undecidable.

    It is, for example, where the run fell back to another device than `device` for want of GPUs.
    """
    if campaign.backends[backend].unsupported(case):
        return None
    comparison = rerun_or_none(campaign, case, backend, divergence)
    if comparison and comparison.elsewhere(device):
        return None
    same = _same_fault if backend == divergence.backend else _looks_alike
    return same(comparison, divergence)


def _diverges_without(campaign: Campaign, case: Case, divergence: Divergence) -> bool | None:
    """As `_diverges` on its backend; False too where the run shows first what explains itself.

    A failure could hide wrong numbers, and a later failure. Of a failure it is False where the run ends.
    """
    if campaign.backends[divergence.backend].unsupported(case):
        return None
    comparison = rerun_or_none(campaign, case, divergence.backend, divergence)
    known = shows_what_is_known(comparison, case, divergence, campaign.explanation)
    if known or _comes_further(comparison, case, divergence, campaign.explanation):
        return False
    return _same_fault(comparison, divergence)


def shows_what_is_known(
    comparison: Comparison | None, case: Case, divergence: Divergence, explanation: Explanation
) -> bool:
    """Whether the first of a run's wrong numbers is explained, as by the ledger; not of a run that failed.

    Where it is another than `divergence`, any option of the case may be what decides it.
    """
    if comparison is None or comparison.verdict != "diverge":
        return False
    first = comparison.divergences[0]
    if first.symptom not in {Symptom.MISMATCH, Symptom.NONFINITE}:
        return False
    options = () if _is_same(first, divergence) else (name for name, _ in deciding(case))
    return bool(explanation(first, case, evidence={DECIDED_BY: ", ".join(options)}))


def _comes_further(
    comparison: Comparison | None, case: Case, divergence: Divergence, explanation: Explanation
) -> bool:
    """Whether a run passes where the finding failed: it ends, or its own failure is later and explained."""
    if comparison is None or comparison.verdict != "diverge" or not _is_failure(divergence):
        return False
    first = comparison.divergences[0]
    later = _place(first) > _place(divergence) and bool(explanation(first, case))
    return not _is_failure(first) or later


def _is_failure(divergence: Divergence) -> bool:
    return isinstance(divergence.facts, FailureFacts)


def _place(divergence: Divergence) -> tuple[int, int]:
    return divergence.step, STAGES.index(divergence.stage)


def _numbers_differ(
    campaign: Campaign, result: CaseResult, divergence: Divergence, environment: Mapping[str, str]
) -> bool | None:
    """Whether the case shows the same wrong numbers with further environment variables; None if undecidable.

    What the first run showed beside them, such as an operator on the host, may stay.
    """
    comparison = rerun_or_none(campaign, result.case, divergence.backend, divergence, environment)
    beside = {
        shown.check for shown in result.comparisons[divergence.backend].divergences if shown.ratio is None
    }
    left = {shown.check for shown in comparison.divergences} if comparison and comparison.decides else set()
    return False if left and left <= beside - {divergence.check} else _same_fault(comparison, divergence)


def _same_fault(comparison: Comparison | None, divergence: Divergence) -> bool | None:
    """Whether a run shows the same fault.

    None if undecidable: it shows another fault, or nothing could be compared.
    """
    if comparison is None or not comparison.decides:
        return None
    if comparison.verdict == "agree":
        return False
    return True if _is_same(comparison.divergences[0], divergence) else None


def _is_same(shown: Divergence, divergence: Divergence) -> bool:
    facts = attrgetter("check", "symptom", "cause")
    return bool(facts(shown) == facts(divergence))


def _looks_alike(comparison: Comparison | None, divergence: Divergence) -> bool | None:
    """As `_same_fault`, for another backend, whose damage must look alike too.

    Two different faults can spoil the same tensors.
    """
    same = _same_fault(comparison, divergence)
    return None if same and comparison and comparison.divergences[0].nature != divergence.nature else same
