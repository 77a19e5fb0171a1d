"""Which samples of torch's databases become programs."""

import itertools

from difftest.cases.layers.operator import Operand
from generators.operators.table import Sample
from tools.operators.choose import FEWEST_SAMPLES, MOST_SAMPLES, Encoded, UnfitError, chosen


def _encoded(shape: tuple[int, ...] = (4, 6), **options: float | str | bool | None) -> Encoded:
    return Sample(operands={"input": Operand(shape=shape)}, options=options), {}


def _stored(encoded: Encoded) -> Sample:
    return encoded[0]


def test_every_value_of_an_option_is_chosen_although_the_database_has_the_last_one_late() -> None:
    values = list(itertools.product((True, False), (0, 1, 2), ("a", "b")))
    products = [_encoded(dilated=d, padding=p, mode=m, shift=s) for s in range(8) for d, p, m in values]
    late = _encoded(dilated=True, padding=0, mode="a", shift=99)
    samples = chosen([*products, *products, late], _stored, [])
    assert late[0] in samples
    assert {sample.options["padding"] for sample in samples} == {0, 1, 2}
    assert {sample.options["mode"] for sample in samples} == {"a", "b"}


def test_the_first_sample_is_a_usual_call() -> None:
    empty, single, usual, large = (_encoded(shape) for shape in ((0, 3), (), (2, 3), (40, 50)))
    samples = chosen([empty, single, large, usual], _stored, [])
    assert samples[0] == usual[0]
    assert samples[-1] == large[0]


def test_pairs_of_values_are_chosen_where_no_value_is_new() -> None:
    pairs = [_encoded(first=first, second=second) for first in range(3) for second in range(3)]
    assert len(chosen(pairs, _stored, [])) == 9


def test_samples_that_differ_in_their_sizes_alone_fill_up_to_six() -> None:
    sizes = [_encoded((2, size)) for size in range(2, 30)]
    assert len(chosen(sizes, _stored, [])) == FEWEST_SAMPLES


def test_what_a_rejected_sample_shows_is_looked_for_in_another() -> None:
    samples = [_encoded(), _encoded((4, 7), mode="rare"), _encoded((4, 8), mode="rare")]
    error, reasons = UnfitError("a result is not finite"), list[Exception]()

    def but_one(encoded: Encoded) -> Sample:
        if encoded is samples[1]:
            raise error
        return encoded[0]

    taken = chosen(samples, but_one, reasons)
    assert reasons == [error]
    assert samples[2][0] in taken
    assert samples[1][0] not in taken


def test_there_are_at_most_so_many() -> None:
    assert len(chosen([_encoded(value=number) for number in range(99)], _stored, [])) == MOST_SAMPLES
    assert len(chosen([_encoded(value=number) for number in range(99)], _stored, [], 4)) == 4
