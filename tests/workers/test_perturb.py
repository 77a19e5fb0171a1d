"""Simulated rounding on real operators: what is perturbed, by how much, and what stays as it is."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from difftest.cases.case import DType
from workers.training.perturb import coarsest
from workers.training.perturb_program import perturbed

pytestmark = pytest.mark.slow

UNIT = 2.0**-24
"""The unit roundoff of float32."""


def values(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.5


def noise(
    function: Callable[..., Tensor], *given: Tensor, dtype: DType = "float32", program: bool = True
) -> float:
    """The greatest deviation over eight perturbed runs."""
    exact, greatest = function(*given), 0.0
    for seed in range(8):
        with perturbed(dtype, seed, program=program):
            moved = function(*given)
        greatest = max(greatest, float((moved - exact).abs().max()))
    return greatest


def test_a_model_draws_the_numbers_that_it_always_drew() -> None:
    def drawn(random: torch.Generator, like: Tensor) -> Tensor:
        return torch.rand(like.shape, dtype=torch.float64, generator=random) * 2.0 - 1.0

    def noisy(random: torch.Generator, value: Tensor, roundoffs: float) -> Tensor:
        relative = drawn(random, value)
        flushed = (relative.flip(0) * 2.0**-126).clamp(-value.abs(), value.abs())
        return value + (value * relative) * (roundoffs * UNIT) + flushed

    one, other, random = values(3, 4), values(4, 2, seed=1), torch.Generator().manual_seed(5)
    product = noisy(random, noisy(random, one, 1.0) @ noisy(random, other, 1.0), 1.0)
    expected = noisy(random, product.exp(), 4.0)
    with perturbed("float32", 5):
        assert torch.equal((one @ other).exp(), expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_noise_has_the_size_of_the_dtypes_roundoff(dtype: DType) -> None:
    roundoff = torch.finfo(getattr(torch, dtype)).eps / 2
    assert 0.3 * roundoff < noise(torch.mul, values(50), values(50, seed=1), dtype=dtype) < 3 * roundoff


@pytest.mark.parametrize(
    ("dtype", "program", "alike"),
    [("float64", False, True), ("float64", True, False), ("float32", False, False)],
)
def test_equal_magnitudes_are_rounded_alike_in_float64_of_models(
    dtype: DType, program: bool, alike: bool
) -> None:
    given = torch.tensor([0.3, -0.3], dtype=torch.float64).repeat(32)
    with perturbed(dtype, 0, program=program):
        moved = given.tanh()
    assert (len(moved.abs().unique()) == 1) == alike
    assert not torch.equal(moved, given.tanh())


def test_copies_and_selections_do_not_round() -> None:
    given = values(3, 4) - 1.0
    functions: list[Callable[[Tensor], Tensor]] = [torch.t, torch.amax, torch.relu, lambda one: one.sort()[0]]
    for function in functions:
        assert noise(function, given, dtype="bfloat16") == 0.0


def test_a_sum_into_a_given_tensor_arrives_there() -> None:
    into, index = torch.zeros(3, dtype=torch.float64), torch.tensor([0, 2, 2])
    with perturbed("float32", 0, program=True):
        into.scatter_add_(0, index, values(3))
    assert torch.allclose(into, torch.zeros(3, dtype=torch.float64).scatter_add(0, index, values(3)))
    assert into[2] > 0


def test_running_statistics_are_updated_while_inputs_are_perturbed() -> None:
    mean = torch.zeros(4, dtype=torch.float64)
    with perturbed("float32", 0, program=True):
        torch.nn.functional.batch_norm(values(8, 4), mean, torch.ones_like(mean), training=True)
    assert torch.allclose(mean, 0.1 * values(8, 4).mean(0), rtol=1e-5)


def test_perturbed_inputs_neither_leave_the_domain_nor_a_pole() -> None:
    edge = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)
    for function in (torch.special.ndtri, torch.erfinv, torch.logit, torch.digamma):
        with perturbed("bfloat16", 1, program=True):
            moved = function(edge)
        assert torch.equal(moved.isfinite(), function(edge).isfinite())
        assert not moved.isnan().any()


def test_an_operator_in_place_at_the_edge_of_its_domain_is_given_its_own_input_again() -> None:
    edge = torch.tensor([1.0, 0.5], dtype=torch.float64)
    for seed in range(8):
        with perturbed("bfloat16", seed, program=True):
            moved = edge.clone().erfinv_()
        assert moved[0] == torch.inf
        assert moved[1] == pytest.approx(torch.erfinv(edge)[1].item(), rel=0.1)


def test_a_matrix_that_rounding_makes_singular_is_not_perturbed() -> None:
    tiny = torch.full((1, 1), 1e-300, dtype=torch.float64)
    with perturbed("float16", 0, program=True):
        assert torch.linalg.inv(tiny).isfinite().all()


def test_an_ill_conditioned_matrix_amplifies_the_noise() -> None:
    matrix = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-3]], dtype=torch.float64)
    ratio = noise(torch.linalg.inv, matrix) / torch.linalg.inv(matrix).abs().max().item()
    assert 100 * UNIT < ratio < 1e5 * UNIT


def test_a_mask_of_floats_stays_one() -> None:
    given, target = values(2, 3).requires_grad_(), torch.tensor([[0, -1, 0], [1, 2, -1]])
    for seed in range(4):
        with perturbed("bfloat16", seed, program=True):
            torch.nn.functional.multilabel_margin_loss(given, target).backward()
    assert given.grad is not None


def test_an_addend_that_cancels_leaves_its_rounding() -> None:
    one, other = values(20), values(20, seed=1)
    assert noise(torch.addcmul, -one * other, one, other) > 0.1 * UNIT
    assert noise(torch.addcmul, -one * other, one, other, program=False) < 1e-3 * UNIT


@pytest.mark.parametrize("program", [True, False])
def test_a_long_product_has_the_noise_of_its_partial_sums_which_cancel(program: bool) -> None:
    ones = torch.ones(64, 256, dtype=torch.float64)
    signs = torch.ones(256, 1, dtype=torch.float64).index_fill_(0, torch.arange(128, 256), -1.0)
    forms: dict[str, Callable[..., Tensor]] = {
        "mm": torch.mm,
        "mv": lambda one, other: torch.mv(one, other[:, 0]),
        "dot": lambda one, other: torch.dot(one[0], other[:, 0]),
        "bmm": lambda one, other: torch.bmm(one[None], other[None]),
        "addmm": lambda one, other: torch.addmm(torch.zeros_like(one[:1, :1]), one, other, alpha=-1),
        "addbmm": lambda one, other: torch.addbmm(torch.zeros_like(one[:, :1]), one[None], other[None]),
    }
    real = math.sqrt(2 * sum(k**2 for k in range(128))) * UNIT / math.sqrt(3)
    for name, form in forms.items():
        squares = []
        for seed in range(16):
            with perturbed("float32", seed, program=program):
                squares.append(form(ones, signs).square().mean())
        assert 0.6 * real < torch.stack(squares).mean().sqrt() < 1.6 * real, name


@pytest.mark.parametrize("operator", ["addmm", "addbmm", "addmv", "conv1d"])
def test_a_product_that_begins_with_a_large_bias_has_the_noise_of_sums_as_large(operator: str) -> None:
    one, other = (values(64, 96) - 1.0) * 2.0**-30, values(96, 8, seed=1) - 1.0
    forms: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
        "addmm": torch.addmm,
        "addbmm": lambda bias, one, other: torch.addbmm(bias, one[None], other[None]),
        "addmv": lambda bias, one, other: torch.addmv(bias[0], one, other[:, 0]),
        "conv1d": lambda bias, one, other: torch.conv1d(one[:, :, None], other.T[:, :, None], bias[0]),
    }
    bias = torch.ones(1, 64 if operator == "addmv" else 8, dtype=torch.float64)
    apart = noise(forms[operator], bias * 0.0, one, other)
    assert apart < 2.0**-24 * UNIT
    assert 2 * UNIT < noise(forms[operator], bias, one, other) < 2 * math.sqrt(96) * UNIT


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (2, 1), (1, 2)])
def test_a_convolution_and_its_gradients_have_the_noise_of_their_partial_sums(
    transposed: bool, groups: int, stride: int
) -> None:
    inputs, weight = (torch.ones(*shape, dtype=torch.float64) for shape in ((8, 8, 12), (8, 8 // groups, 5)))
    options = (None, [stride], [0], [1], transposed, [0], groups)
    exact = torch.ops.aten.convolution(inputs, weight, *options)
    gradient, rest = torch.ones_like(exact), ([8], *options[1:], [True, True, True])
    exacts = (exact, *torch.ops.aten.convolution_backward(gradient, inputs, weight, *rest))
    squares = torch.zeros(4, dtype=torch.float64)
    for seed in range(16):
        with perturbed("float32", seed):
            result = torch.ops.aten.convolution(inputs, weight, *options)
            gradients = torch.ops.aten.convolution_backward(gradient, inputs, weight, *rest)
        for at, (one, right) in enumerate(zip((result, *gradients), exacts, strict=True)):
            squares[at] += (one - right).square().mean() / 16
    for square, right in zip(squares, exacts, strict=True):
        terms = right.square().mean().sqrt().item()  # each is 1
        assert 0.6 < square.sqrt().item() / (terms**1.5 / 3.0 * UNIT) < 2.2


def test_sums_of_squares_have_the_noise_of_their_partial_sums_in_programs() -> None:
    given = values(400) - 1.0
    forms: dict[Callable[[Tensor], Tensor], float] = {
        torch.var: 1.0,
        torch.std: 2.0,
        torch.linalg.vector_norm: 2.0,
        lambda one: torch.nn.functional.mse_loss(one, torch.zeros_like(one)): 1.0,
    }
    for form, power in forms.items():
        expected = form(given).item() * math.sqrt(400 / 3.0) / power * UNIT
        assert 0.5 * expected < noise(form, given) < 2 * expected
        assert noise(form, given, program=False) < 0.5 * expected
    assert noise(lambda one: torch.linalg.vector_norm(one, math.inf), given) < 3 * UNIT


@pytest.mark.parametrize("form", ["layer_norm", "batch_norm", "group_norm"])
def test_a_norm_has_the_noise_of_a_variance_that_is_a_difference_of_means(form: str) -> None:
    """Where the mean is thirty times the deviation, some thousand roundoffs are lost."""

    def norm(given: Tensor) -> Tensor:
        if form == "layer_norm":
            return torch.nn.functional.layer_norm(given, (32,))
        if form == "group_norm":
            return torch.nn.functional.group_norm(given.reshape(2, 4, 16), 2).reshape(4, 32)
        return torch.nn.functional.batch_norm(given.T, None, None, training=True).T

    apart = torch.linspace(-1.0, 1.0, 32, dtype=torch.float64).expand(4, 32)
    near, far = noise(norm, apart.clone(), program=False), noise(norm, apart + 18.0, program=False)
    assert near < 12 * UNIT
    assert 1_000 * UNIT < far < 10_000 * UNIT
    mean = noise(lambda given: (norm(given) * apart).mean(1), apart + 18.0, program=False)
    assert mean > 0.2 * far, "all elements of a row are off by one factor"


def test_the_running_variance_of_batch_norm_has_the_noise_of_a_difference_of_means() -> None:
    def running(given: Tensor) -> Tensor:
        mean, variance = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        torch.nn.functional.batch_norm(given, mean, variance, training=True, momentum=0.5)
        return variance

    apart = torch.linspace(-1.0, 1.0, 32, dtype=torch.float64).reshape(32, 1)
    near, far = noise(running, apart.clone(), program=False), noise(running, apart + 18.0, program=False)
    assert near < 12 * UNIT
    assert 300 * UNIT < far < 3_000 * UNIT


@pytest.mark.parametrize("form", ["softmax", "log_softmax"])
def test_the_gradient_of_a_softmax_has_the_noise_of_a_sum_that_a_row_shares(form: str) -> None:
    """Without rounding the elements of a row add up to 0."""

    def total(gradient: Tensor) -> Tensor:
        scores = torch.zeros(4, 300, dtype=torch.float64, requires_grad=True)
        output = getattr(scores, form)(1)
        return torch.autograd.grad(output, scores, gradient)[0].sum(1)

    given = torch.ones(4, 300, dtype=torch.float64)
    added = 300.0 if form == "log_softmax" else 1.0
    expected = added * math.sqrt(300 / 3.0) * UNIT
    assert 0.5 * expected < noise(total, given, program=False) < 3 * expected
    number = torch.zeros((), dtype=torch.float64, requires_grad=True)
    with perturbed("float32", 0):
        assert torch.autograd.grad(getattr(number, form)(0), number)[0].shape == ()


@pytest.mark.parametrize("program", [False, True])
def test_the_running_mean_of_batch_norm_has_the_noise_of_the_partial_sums_of_its_share(program: bool) -> None:
    def running(given: Tensor) -> Tensor:
        mean, variance = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
        torch.nn.functional.batch_norm(given, mean, variance, training=True, momentum=0.25)
        return mean

    given = values(20, 3, 20)
    expected = 0.25 * math.sqrt(400 / 3.0) * UNIT
    assert 0.5 * expected < noise(running, given, program=program) < 2 * expected
    apart = given - given.mean((0, 2), keepdim=True)
    assert noise(running, apart, program=program) < 0.2 * expected, "partial sums that cancel are small"


@pytest.mark.parametrize("form", ["layer_norm", "batch_norm", "group_norm"])
def test_the_gradient_of_a_bias_ahead_of_a_norm_has_the_noise_of_a_mean_that_all_elements_share(
    form: str,
) -> None:
    """The bias adds 400 elements with one error, which is that of the partial sums of 400 numbers."""

    def gradient(given: Tensor) -> Tensor:
        bias = torch.zeros(3, 1, 1, dtype=torch.float64, requires_grad=True)
        shifted = given + bias
        if form == "layer_norm":
            result = torch.nn.functional.layer_norm(shifted, (20, 20))
        elif form == "batch_norm":
            result = torch.nn.functional.batch_norm(shifted, None, None, training=True)
        else:
            result = torch.nn.functional.group_norm(shifted, 3)
        return torch.autograd.grad(result.sum(), bias)[0].squeeze()

    given = values(1, 3, 20, 20)
    expected = 400 * math.sqrt(400 / 3.0) * UNIT / given.std().item()
    assert 0.5 * expected < noise(gradient, given, program=False) < 2 * expected


def test_all_results_at_which_tanh_ends_are_off_alike() -> None:
    """XLA's tanh ends 3 roundoffs below 1 without optimisation; the sum of 1 - y * y has that n times."""

    def summed(inputs: Tensor) -> Tensor:
        return (1.0 - inputs.tanh().square()).sum()

    before_its_end, at_its_end = (torch.full((1024,), at, dtype=torch.float64) for at in (8.0, 12.0))
    assert noise(summed, before_its_end, program=False) < 3.0 * 1024 * UNIT
    assert noise(summed, at_its_end, program=False) > 3.0 * 1024 * UNIT


def test_the_partial_sums_of_a_product_of_half_types_are_float32() -> None:
    ones, signs = torch.ones(8, 256, dtype=torch.float64), values(256, 1, seed=99).sub_(1.0).sign_()
    roundoff = torch.finfo(torch.bfloat16).eps / 2
    assert noise(torch.mm, ones, signs, dtype="bfloat16") < 4 * 16 * math.sqrt(2) * roundoff


def test_the_gradient_of_soft_margin_loss_has_the_noise_of_its_exponent() -> None:
    given, one = torch.full((20,), 12.0, dtype=torch.float64), torch.ones(20, dtype=torch.float64)

    def gradient(inputs: Tensor) -> Tensor:
        result: Tensor = torch.ops.aten.soft_margin_loss_backward(one, inputs, one, 0)
        return result

    assert 4 * UNIT < noise(gradient, given) / gradient(given).abs().max().item() < 40 * UNIT


def test_eigenvalues_have_more_noise_than_a_solution() -> None:
    matrix = torch.diag(torch.linspace(1.0, 2.0, 8, dtype=torch.float64))
    exact = torch.linalg.eigvalsh(matrix)
    assert 3 * UNIT < noise(torch.linalg.eigvalsh, matrix) / exact.max().item() < 40 * UNIT


def test_the_parts_of_a_complex_product_round_as_its_magnitude() -> None:
    one = torch.full((50,), 1 + 1j, dtype=torch.complex128)

    def real_part(product: Tensor) -> Tensor:
        return (product * product).real  # 0

    assert 0.3 * UNIT < noise(real_part, one) < 6 * UNIT


def test_an_operator_without_a_class_has_noise() -> None:
    with torch.library._scoped_library("floors_test", "DEF") as library:  # noqa: SLF001  no public equivalent
        library.define("twice(Tensor one) -> Tensor")
        library.impl("twice", lambda one: one * 2.0, "CompositeExplicitAutograd")
        assert noise(torch.ops.floors_test.twice, values(20)) > UNIT


def test_the_coarsest_floating_dtype_is_simulated() -> None:
    assert coarsest(["float32", "int64", "bfloat16", "float16"], "float32") == "bfloat16"
    assert coarsest(["complex64", "float64"], "float64") == "float32"
    assert coarsest(["bool"], "float16") == "float16"


def test_an_operator_of_lists_rounds_as_its_operator_of_tensors_does() -> None:
    one, other = values(40), values(40, seed=1)

    def in_place(left: Tensor, right: Tensor) -> Tensor:
        held = [left.clone()]
        torch._foreach_mul_(held, [right])
        return held[0]

    assert 0.3 * UNIT < noise(in_place, one, other) < 3 * UNIT
    lists = torch.ops.aten
    assert noise(lambda left, right: lists._foreach_add([left], [right])[0], one, other) > 0.3 * UNIT  # noqa: SLF001
    scaled = noise(lambda a, b: lists._foreach_addcmul([a], [b], [b], 1e6)[0], one, other)  # noqa: SLF001
    assert 1e5 * UNIT < scaled < 1e7 * UNIT


def test_lists_have_maxima_in_place_and_with_numbers_that_tensors_do_not_have() -> None:
    left, right = [values(40)], [values(40, seed=1)]
    greatest = torch.maximum(left[0], right[0])
    with perturbed("float32", 0, program=True):
        bounded = torch._foreach_minimum(left, 0.75)  # noqa: SLF001
        torch._foreach_maximum_(left, right)
    assert torch.equal(left[0], greatest)
    assert float(bounded[0].max()) == 0.75


@pytest.mark.parametrize("shape", [(4, 0, 0), (0,)])
def test_what_has_no_elements_is_perturbed_to_nothing(shape: tuple[int, ...]) -> None:
    given = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    with perturbed("float32", 0, program=True):
        result = given.log_softmax(-1)
        result.sum().backward()
    assert result.shape == given.shape
    assert torch.equal(given.grad, given)  # type: ignore[arg-type]


def test_the_noise_of_a_log_softmax_is_that_of_its_own_dim() -> None:
    columns = torch.tensor([[1e4, 0.0], [1e4, 1.0]], dtype=torch.float64)
    with perturbed("float32", 0, program=True):
        moved = columns.log_softmax(0)
    error = (moved - columns.log_softmax(0)).abs()
    assert error[:, 0].min() > 1e-5 > error[:, 1].max()


def test_the_noise_of_a_probability_of_1_stays_in_the_domain() -> None:
    one, target = torch.ones(40, dtype=torch.float64), torch.zeros(40, dtype=torch.float64)
    assert noise(torch.nn.functional.binary_cross_entropy, one, target) > 0


def test_functions_of_float64_are_approximated_less_well_than_those_of_float32() -> None:
    roundoff = torch.finfo(torch.float64).eps / 2
    double = noise(torch.tanh, values(200), dtype="float64") / roundoff
    single = noise(torch.tanh, values(200)) / UNIT
    assert 1.3 * single < double < 3 * single


def test_a_tensor_without_values_is_not_perturbed() -> None:
    with perturbed("float32", 0, program=True):
        assert (torch.ones(3, dtype=torch.float64, device="meta") + 1.0).shape == (3,)


def test_an_optimizer_in_one_kernel_rounds_every_tensor_that_it_writes() -> None:
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-5}

    def updated(index: int) -> float:
        def run(*given: Tensor) -> Tensor:
            held = [[one.clone()] for one in given]
            steps = [torch.tensor(3.0, dtype=torch.float64)]
            update = torch.ops.aten._fused_adam_
            update(*held, [], steps, **options, amsgrad=False, maximize=False)
            return held[index][0]

        return noise(run, *(values(40, seed=seed) for seed in range(4)))

    assert all(0.3 * UNIT < updated(index) < 10 * UNIT for index in (0, 2, 3))


@pytest.mark.parametrize("indices", [torch.tensor(3), torch.tensor([3]), torch.tensor([[3, 1], [3, 3]])])
def test_the_gradient_of_an_embedding_has_noise_for_indices_of_any_shape(indices: Tensor) -> None:
    gradient = values(*indices.shape, 4)
    backward = torch.ops.aten.embedding_dense_backward
    moved = noise(lambda given: backward(given, indices, 6, -1, scale_grad_by_freq=False), gradient)
    assert 0.0 < moved < 100 * UNIT * float(gradient.abs().sum())
