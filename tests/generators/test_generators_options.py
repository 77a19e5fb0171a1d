"""Options of some backends only: drawn often enough to be tested, seldom enough to leave others alone."""

import random

import msgspec
import pytest
from generated_cases import GeneratedCases
from hypothesis import given, settings
from samples import a_case

from difftest.cases.case import Case, Training
from difftest.cases.options import ACTS, Spelling, Start
from generators.cases import case_at, pool_at
from generators.explore import features
from generators.options import CONCERNS, EARLY, LATE, SELDOM, SHARES, STOPS, USUALLY, spelled, starts


@pytest.fixture(scope="session")
def hundreds(generated_cases: GeneratedCases) -> tuple[tuple[Case, ...], ...]:
    """The first 300 cases, in hundreds."""
    return generated_cases.hundreds(0, 1, 2)


def early(start: Start) -> bool:
    """Whether the devices are used before SPMD is enabled."""
    return start.acts.index("spmd") > min(start.acts.index("device"), start.acts.index("seed"))


def test_every_early_order_is_early_and_no_other_is() -> None:
    assert all(early(Start(acts=acts)) for acts in EARLY)
    assert not any(early(Start(acts=acts)) for acts in (ACTS, *LATE))


@settings(max_examples=200)
@given(starts(accumulation=1))
def test_a_batch_without_accumulation_is_not_scanned(start: Start) -> None:
    assert start.accumulation == "loop"


@pytest.mark.long
def test_an_early_start_is_drawn_within_a_hundred_cases_and_is_rare(
    hundreds: tuple[tuple[Case, ...], ...],
) -> None:
    for hundred in hundreds:
        drawn = sum(early(case.start) for case in hundred)
        assert 1 <= drawn <= 100 // 8


def test_every_choice_of_a_start_is_drawn_and_the_default_is_usual(
    hundreds: tuple[tuple[Case, ...], ...],
) -> None:
    drawn = [case.start for hundred in hundreds for case in hundred]
    assert sum(start == Start() for start in drawn) > len(drawn) / 3
    assert {start.marked for start in drawn} == {"after", "before"}
    assert {start.replicated for start in drawn} == {"marked", "unmarked"}
    assert {start.asynchronous for start in drawn} == {True, False}
    assert {start.accumulation for start in drawn} == {"loop", "scan"}


def test_activation_checkpointing_is_drawn_only_for_models_with_blocks(
    hundreds: tuple[tuple[Case, ...], ...],
) -> None:
    checkpointed = [case for hundred in hundreds for case in hundred if case.training.checkpointing]
    assert checkpointed
    assert all(
        any(type(layer).__name__ == "Residual" for layer in case.model.layers) for case in checkpointed
    )


ELSEWHERE = {"inference", "no_implicit_replication", "strided"}
"""The forms that the schedule of operator programs takes, and the cases of users' models."""


def stopped_by(form: str, case: Case) -> bool:
    return form in STOPS and STOPS[form](case)


def test_each_usual_form_is_taken_as_often_as_it_says_and_seldom_where_it_stops_a_backend(
    hundreds: tuple[tuple[Case, ...], ...],
) -> None:
    cases = [case for hundred in hundreds for case in hundred]
    assert set(CONCERNS) == set(Spelling.__struct_fields__) - ELSEWHERE, "every form is drawn"
    for form, concerns in CONCERNS.items():
        for chance, stops in ((SHARES.get(form, USUALLY), False), (SELDOM, True)):
            concerned = [case for case in cases if concerns(case) and stopped_by(form, case) is stops]
            taken, expected = sum(getattr(case.forms, form) for case in concerned), chance * len(concerned)
            assert abs(taken - expected) <= 4 * (expected * (1 - chance)) ** 0.5, (form, taken, expected)
        assert not any(getattr(case.forms, form) for case in cases if not concerns(case))


def test_most_cases_can_be_compared_on_every_backend(hundreds: tuple[tuple[Case, ...], ...]) -> None:
    cases = [case for hundred in hundreds for case in hundred]
    stopped = [
        any(getattr(case.forms, form) and stopped_by(form, case) for form in CONCERNS) for case in cases
    ]
    assert 0.1 < sum(stopped) / len(cases) < 0.3


def test_usual_forms_leave_the_rest_of_a_case_as_it_was() -> None:
    for index in range(20):
        case = case_at(2, index, paths=("data_parallel",))
        plain = msgspec.structs.replace(case, spelling=msgspec.UNSET)
        assert plain in pool_at(2, index, path="data_parallel")


def test_a_form_is_drawn_alike_whether_or_not_others_concern_the_case() -> None:
    several, single = a_case(training=Training(steps=2)), a_case(training=Training(steps=1))
    for seed in range(20):
        forms = [spelled(case, random.Random(seed)).forms for case in (several, single)]  # noqa: S311
        assert msgspec.structs.replace(forms[0], changing_number=False) == forms[1]


def test_a_program_takes_only_how_it_is_compiled_and_keeps_its_own_forms() -> None:
    programs = [case_at(2, index, paths=("operators",)) for index in range(60)]
    assert {case.forms for case in programs} == {Spelling(), Spelling(unoptimised=True)}
    strided = [case_at(2, index, paths=("strided_operands",)).forms for index in range(60)]
    assert set(strided) == {Spelling(strided=True), Spelling(strided=True, unoptimised=True)}


def test_the_explorer_does_not_see_usual_forms() -> None:
    assert features(a_case(spelling=Spelling(torch_loss=True))) == features(a_case())
