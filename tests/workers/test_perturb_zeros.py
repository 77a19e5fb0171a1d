"""The sign of a zero that nobody has documented: what depends on it is undecided, and nothing else."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from workers.training.perturb_program import perturbed

pytestmark = pytest.mark.slow

ZEROS = (0.0, -0.0, 2.0)


@pytest.mark.parametrize(
    "operator",
    [
        lambda values: values.clamp(0.0, 1.0),
        lambda values: values.clone().clamp_(min=0.0),
        lambda values: torch.maximum(values, -values),
        lambda values: torch._foreach_clamp_min([values], 0.0)[0],  # noqa: SLF001  it has no other name
        lambda values: values.reshape(1, -1).amax(0),
    ],
)
def test_zeros_whose_sign_is_left_open_have_either_in_one_run_or_the_next(
    operator: Callable[[Tensor], Tensor],
) -> None:
    quotients = []
    for seed in range(2):
        with perturbed("float32", seed, program=True):
            quotients.append(1.0 / operator(torch.tensor(ZEROS, dtype=torch.float64)))
    assert quotients[0][:2].tolist() == [torch.inf, torch.inf]
    assert quotients[1][:2].tolist() == [-torch.inf, -torch.inf]
    assert quotients[0][2].isfinite()


def test_zeros_of_other_operators_keep_their_signs() -> None:
    for seed in range(2):
        with perturbed("float32", seed, program=True):
            kept = torch.tensor(ZEROS, dtype=torch.float64).abs().neg()
        assert kept.signbit().tolist() == [True, True, True]
