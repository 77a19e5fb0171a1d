"""The side that a divergence is blamed on, and for what."""

import itertools

import pytest

from difftest.judge.blame import TwoByTwo, verdict

ANSWERS = (True, False, None)


@pytest.mark.parametrize(
    ("single", "other", "other_single", "words"),
    [
        (False, False, False, "xla sharding fault"),
        (False, None, None, "xla sharding fault"),
        (False, True, False, "shared sharding fault"),
        (False, True, None, "shared sharding fault"),
        (True, False, False, "xla backend fault"),
        (True, True, False, "xla backend fault"),
        (True, None, None, "xla backend fault"),
        (True, True, True, "oracle in doubt"),
        (True, False, True, "oracle in doubt"),
        (None, False, False, "xla fault"),
    ],
)
def test_the_square_determines_the_blame(
    single: bool | None, other: bool | None, other_single: bool | None, words: str
) -> None:
    assert (
        verdict("xla", TwoByTwo(single=single, other=other, other_single=other_single), stable=(1, 2))
        == words
    )


def test_a_divergence_that_was_not_reproduced_is_inconclusive() -> None:
    for single, other, other_single in itertools.product(ANSWERS, repeat=3):
        square = TwoByTwo(single=single, other=other, other_single=other_single)
        assert verdict("torch", square, stable=(0, 2)) == "inconclusive: it did not come back"
        assert verdict("torch", square, stable=(0, 0)) == "inconclusive: it could not be run again"


def test_every_square_has_a_verdict() -> None:
    for single, other, other_single in itertools.product(ANSWERS, repeat=3):
        words = verdict(
            "torch", TwoByTwo(single=single, other=other, other_single=other_single), stable=(2, 2)
        )
        assert words.endswith(("fault", "in doubt")) or words.startswith("inconclusive: ")
