"""Options of some backends only: drawn often enough to be tested, seldom enough to leave others alone."""

from collections import Counter

import msgspec
import pytest
from generated_cases import ALONE, GeneratedCases
from hypothesis import given, settings

from difftest.cases.case import Case
from difftest.cases.options import ACTS, Spelling, Start
from generators import options
from generators.cases import pool_at
from generators.options import CONCERNS, EARLY, LATE, starts


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


def test_usual_forms_wait_for_their_switch(hundreds: tuple[tuple[Case, ...], ...]) -> None:
    assert not options.DRAWS_SPELLINGS
    assert all(case.spelling is msgspec.UNSET for hundred in hundreds for case in hundred)


def test_half_of_the_cases_take_usual_forms_each_of_which_concerns_its_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "DRAWS_SPELLINGS", True)
    paths = ALONE
    cases = [pool_at(1, index, path=paths[index % len(paths)])[0] for index in range(150)]
    forms = [[name for name in CONCERNS if getattr(case.forms, name)] for case in cases]
    counts = Counter(name for drawn in forms for name in drawn)
    assert set(CONCERNS) == set(Spelling.__struct_fields__), "every form is drawn"
    assert set(counts) >= {"torch_loss", "host_backward", "pin_layout", "no_broadcast", "optimizer_before"}
    assert len(cases) / 3 < sum(map(bool, forms)) < len(cases) * 2 / 3
    assert all(CONCERNS[name](case) for case, drawn in zip(cases, forms, strict=True) for name in drawn)
    assert sum(len(drawn) == 1 for drawn in forms) > sum(len(drawn) > 1 for drawn in forms) > 0


def test_usual_forms_leave_the_rest_of_a_case_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [pool_at(2, index, path="data_parallel")[0] for index in range(20)]
    monkeypatch.setattr(options, "DRAWS_SPELLINGS", True)
    spelled = [pool_at(2, index, path="data_parallel")[0] for index in range(20)]
    assert spelled != plain
    assert [msgspec.structs.replace(case, spelling=msgspec.UNSET) for case in spelled] == plain
