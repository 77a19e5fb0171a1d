"""Models of known faults: each gives the numbers of its fault, and no others at the same tensor."""

from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from samples import (
    DEEP,
    Floats,
    Key,
    Spoil,
    a_case,
    candidate,
    oracle,
    with_pieces,
    wrong_at,
)

from difftest.cases import numbers
from difftest.cases.block import layer
from difftest.cases.case import Case, Data, Regime, Training
from difftest.cases.layers.building_block import Arguments, BuildingBlock
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Feature
from difftest.judge.comparator import compare
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.predictions import load, names, number_added_by_each_rank
from difftest.judge.stage import Stage

CLIPPED_AT = 1e6
CLIPPED = a_case(training=Training(steps=2, clip_norm=CLIPPED_AT))
UNEVEN = a_case(fed=Data(batch=5))
LATER = a_case(training=Training(steps=2))


def predicted(case: Case, actual: Trace) -> tuple[str, ...]:
    """What predicts the first divergence of a run."""
    return compare(case, "backend", "side", oracle(case), actual).divergences[0].predicted


def from_initial(case: Case, factor: float, step: int = 0) -> Spoil:
    """Updates with the oracle's gradients times `factor` in one step, all right before it."""
    gradients: dict[str, Floats] = {}
    before = dict(numbers.weights(case))

    def spoil(at: int, key: Key, value: Floats) -> Floats:
        stage, name = key
        if stage is Stage.BACKWARD:
            gradients[name] = value
        if stage is not Stage.UPDATE or at != step:
            if stage is Stage.UPDATE:
                before[name] = value
            return value
        return before[name] - case.training.learning_rate * factor * gradients[name]

    return spoil


def test_every_prediction_has_a_test() -> None:
    text = "".join(file.read_text() for file in Path(__file__).parent.glob("test_predictions*.py"))
    assert [name for name in names() if f'"{name}"' not in text] == []


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.01])
@pytest.mark.parametrize("step", [0, 1])
def test_one_wrong_factor_for_all_gradients_of_a_step_is_that_of_another_norm(
    factor: float, step: int
) -> None:
    assert "another_norm" in predicted(CLIPPED, candidate(CLIPPED, from_initial(CLIPPED, factor, step)))


@pytest.mark.parametrize(("factor", "fits"), [(0.999, True), (0.99, False), (1.002, False)])
def test_a_norm_to_which_each_rank_adds_is_greater_by_at_most_the_root_of_the_ranks(
    factor: float, *, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = 0.01  # with the 1e-6 of torch the effect would be below these runs' noise
    monkeypatch.setattr(number_added_by_each_rank, "ADDED", share * CLIPPED_AT)
    shown = predicted(CLIPPED, candidate(CLIPPED, from_initial(CLIPPED, factor)))
    assert ("number_added_by_each_rank" in shown) is fits


@pytest.mark.parametrize(
    "spoil",
    [
        wrong_at(Stage.UPDATE, "0.weight"),
        wrong_at(Stage.UPDATE, "0.bias", by=1e-3),
        from_initial(CLIPPED, 2.0),
        from_initial(CLIPPED, -1.0),
        lambda _step, key, value: value * 0.9 if key == (Stage.UPDATE, "0.weight") else value,
        lambda _step, key, value: value[::-1] if key == (Stage.UPDATE, "0.weight") else value,
    ],
    ids=["one element", "a small error", "a greater factor", "the other sign", "a factor of one", "rows"],
)
def test_another_wrong_update_of_a_clipped_case_is_not_that_of_another_norm(spoil: Spoil) -> None:
    assert "another_norm" not in predicted(CLIPPED, candidate(CLIPPED, spoil))


def test_an_update_with_the_gradient_as_it_was_is_unclipped() -> None:
    case = a_case()
    clipped = oracle(case)
    key, halved = (Stage.UPDATE, "0.weight"), candidate(case, from_initial(case, 0.5))
    expected = with_pieces(clipped, 0, key, {0: halved.steps[0][key].pieces[0]})
    shown = compare(case, "backend", "side", expected, candidate(case)).divergences[0]
    assert (shown.tensor, "unclipped" in shown.predicted) == ("0.weight", True)
    other = candidate(case, wrong_at(Stage.UPDATE, "0.weight"))
    shown = compare(case, "backend", "side", expected, other).divergences[0]
    assert (shown.tensor, "unclipped" in shown.predicted) == ("0.weight", False)


@pytest.mark.parametrize(("weight", "fits"), [(0.25, True), (1.0, False), (2.0, False)])
def test_another_norm_may_clip_beside_a_parameter_that_is_not_clipped(weight: float, *, fits: bool) -> None:
    case, bias = a_case(), (Stage.UPDATE, "0.bias")
    clipped = candidate(case, from_initial(case, 0.5))
    expected, actual = oracle(case), candidate(case, from_initial(case, weight))
    for key in (bias, (Stage.UPDATE, "0.weight")):
        expected = with_pieces(expected, 0, key, {0: clipped.steps[0][key].pieces[0]})
    whole = candidate(case, from_initial(case, 1.0)).steps[0][bias].pieces
    shown = compare(case, "backend", "side", expected, with_pieces(actual, 0, bias, whole))
    assert ("another_norm" in shown.divergences[0].predicted) is fits


def test_another_norm_is_not_fitted_where_a_parameter_cannot_be_measured() -> None:
    actual = candidate(CLIPPED, from_initial(CLIPPED, 0.5))
    bias = (Stage.UPDATE, "0.bias")
    pieces = {rank: piece[:1] for rank, piece in actual.steps[0][bias].pieces.items()}
    actual = with_pieces(actual, 0, bias, pieces)
    run = measure_run(CLIPPED, "backend", "side", oracle(CLIPPED), actual)
    assert not load("another_norm").predicts(run, (0, Stage.UPDATE, "0.weight"))


def apart(by: tuple[float, float], stage: Stage = Stage.BACKWARD, share: float = 1.0) -> Trace:
    """A run whose two ranks hold `share` of a tensor, each off by one of these numbers."""
    key, case = (stage, "0.weight"), a_case()
    right = candidate(case)
    held = right.steps[0][key].pieces
    return with_pieces(right, 0, key, {rank: share * held[rank] + off for rank, off in enumerate(by)})


@pytest.mark.parametrize(
    ("stage", "share"), [(Stage.BACKWARD, 1.0), (Stage.BACKWARD, 0.5), (Stage.UPDATE, 1.0)]
)
@pytest.mark.parametrize(
    ("by", "fits"), [((0.25, -0.25), True), ((1e3, -1e3), True), ((0.25, 0.25), False), ((0.0, 0.5), False)]
)
def test_a_missing_reduction_leaves_the_mean_or_the_sum_over_the_ranks_right(
    by: tuple[float, float], stage: Stage, share: float, *, fits: bool
) -> None:
    assert ("unreduced" in predicted(a_case(), apart(by, stage, share))) is fits


@pytest.mark.parametrize(("by", "fits"), [((1e-9, 0.0), True), ((0.25, -0.25), False)])
def test_ranks_that_differ_by_rounding_alone_added_up_in_other_orders(
    by: tuple[float, float], *, fits: bool
) -> None:
    assert ("reordered_sum" in predicted(a_case(), apart(by))) is fits


def gradient_off(*names: str, step: int = 1, forward: bool = False) -> Spoil:
    """Wrong gradients of some parameters in one step, and a wrong output where `forward` says so."""

    def spoil(at: int, key: Key, value: Floats) -> Floats:
        gradient = key[0] is Stage.BACKWARD and key[1] in names
        return value + 0.5 if at == step and (gradient or (forward and key[1] == "output")) else value

    return spoil


@pytest.mark.parametrize(
    ("case", "spoil", "fits"),
    [
        (LATER, gradient_off("0.weight"), True),
        (a_case(DEEP, training=Training(steps=2)), gradient_off("0.weight", "2.weight"), False),
        (a_case(DEEP, training=Training(steps=2)), gradient_off("2.weight"), False),
        (LATER, gradient_off("0.weight", step=0), True),
        (a_case(training=Training(steps=2)), gradient_off("0.weight", step=0), False),
        (LATER, gradient_off("0.weight", forward=True), False),
    ],
    ids=["first layer", "two layers", "last layer", "second part", "first batch", "wrong output"],
)
def test_an_earlier_batch_spoils_the_gradients_of_the_first_layer_alone(
    case: Case, spoil: Spoil, *, fits: bool
) -> None:
    case = replace(case, training=replace(case.training, accumulation=2)) if case is LATER else case
    shown = compare(case, "backend", "side", oracle(case), candidate(case, spoil))
    gradient = next(divergence for divergence in shown.divergences if divergence.stage is Stage.BACKWARD)
    run = measure_run(case, "backend", "side", oracle(case), candidate(case, spoil))
    assert load("stale_batch").predicts(run, (gradient.step, Stage.BACKWARD, gradient.tensor)) is fits


def test_halves_of_parameters_are_no_shares_of_an_update() -> None:
    assert "unreduced" not in predicted(a_case(), apart((0.25, -0.25), Stage.UPDATE, 0.5))


def with_loss(case: Case, loss: float) -> Trace:
    right = candidate(case)
    pieces = {rank: np.array(loss) for rank in range(case.world_size)}
    return with_pieces(right, 0, (Stage.FORWARD, "loss"), pieces)


def losses_by_row(case: Case) -> Floats:
    """The mean squared error of each row."""
    outputs = oracle(case).steps[0][Stage.FORWARD, "output"].pieces[0]
    return np.asarray(((outputs - numbers.batch(case, 0).targets) ** 2).mean(axis=1))


def test_the_mean_of_unequal_shards_is_that_of_their_means() -> None:
    rows = losses_by_row(UNEVEN)
    means = float(np.mean([rows[:3].mean(), rows[3:].mean()]))
    assert "mean_of_shards" in predicted(UNEVEN, with_loss(UNEVEN, means))
    for wrong in (means * 1.01, float(rows.mean()) * 2.0, float(rows[:3].mean())):
        assert "mean_of_shards" not in predicted(UNEVEN, with_loss(UNEVEN, wrong))


def nothing_trained(case: Case, but: str = "") -> Trace:
    """A run whose parameters keep their initial values, except one."""
    initial = numbers.weights(case)

    def spoil(_step: int, key: Key, value: Floats) -> Floats:
        stage, name = key
        return initial[name] if stage is Stage.UPDATE and name != but else value

    return candidate(case, spoil)


def test_a_run_that_trains_nothing_keeps_all_initial_values() -> None:
    assert "untrained" in predicted(LATER, nothing_trained(LATER))
    assert "untrained" not in predicted(LATER, nothing_trained(LATER, but="0.bias"))
    late = candidate(LATER, wrong_at(Stage.FORWARD, "output", step=1))
    assert "untrained" not in predicted(LATER, late)


FROZEN = replace(
    a_case(DEEP, path="pipelines"),
    features=(Feature(name="frozen_layers", options={"first": 0, "count": 1}),),
)


def test_a_frozen_layer_that_moved_was_trained_and_no_other_layer_was() -> None:
    initial = numbers.weights(FROZEN)
    assert "frozen_trained" in predicted(FROZEN, candidate(FROZEN, wrong_at(Stage.UPDATE, "0.weight")))
    other = wrong_at(Stage.UPDATE, "2.weight")
    assert "frozen_trained" not in predicted(FROZEN, candidate(FROZEN, other))
    assert "frozen_trained" not in predicted(LATER, candidate(LATER, wrong_at(Stage.UPDATE, "0.weight")))

    def kept(_step: int, key: Key, value: Floats) -> Floats:
        stage, name = key
        return initial[name] if stage is Stage.UPDATE and name.startswith("0.") else value

    assert "frozen_trained" not in predicted(FROZEN, candidate(FROZEN, kept))


def test_a_parameter_that_moved_before_the_step_that_unfreezes_it_was_trained() -> None:
    feature = Feature(name="unfreezing", options={"name": "0.weight", "step": 1})
    case = replace(LATER, features=(feature,))
    assert "frozen_trained" in predicted(case, candidate(case, wrong_at(Stage.UPDATE, "0.weight")))
    assert "frozen_trained" not in predicted(
        case, candidate(case, wrong_at(Stage.UPDATE, "0.weight", step=1))
    )
    assert "frozen_trained" not in predicted(case, candidate(case, wrong_at(Stage.UPDATE, "0.bias")))


def test_under_clipping_a_frozen_layer_that_moved_explains_the_others_of_its_update() -> None:
    clipped = replace(FROZEN, training=Training(clip_norm=0.01))
    moved = candidate(clipped, lambda _step, key, value: value * 1.5 if key[0] is Stage.UPDATE else value)
    assert "frozen_trained" in predicted(clipped, moved)


def shares_applied(factors: tuple[float, float], off: float = 0.0) -> Trace:
    """A run whose two ranks update with their own share of the gradient, clipped by these factors."""
    case, right = CLIPPED, candidate(CLIPPED)
    for name, initial in numbers.weights(case).items():
        key = (Stage.UPDATE, name)
        gradient = np.asarray(right.steps[0][Stage.BACKWARD, name].pieces[0], np.float64)
        own = np.random.default_rng(len(name)).normal(size=gradient.shape)
        pieces = {
            rank: (initial - case.training.learning_rate * factor * (gradient + sign * own) + rank * off)
            for rank, factor, sign in zip((0, 1), factors, (1.0, -1.0), strict=True)
        }
        right = with_pieces(right, 0, key, pieces)
    return right


@pytest.mark.parametrize(
    ("factors", "off", "fits"),
    [
        ((0.5, 0.25), 0.0, True),
        ((1.0, 0.1), 0.0, True),
        ((1.0, 1.0), 0.0, True),
        ((0.5, 0.25), 1e-3, False),
        ((-0.5, 0.5), 0.0, False),
        ((4.0, 0.5), 0.0, False),
    ],
)
def test_ranks_that_clip_their_own_shares_have_updates_that_add_up_to_the_right_one(
    factors: tuple[float, float], off: float, *, fits: bool
) -> None:
    assert ("clipped_apart" in predicted(CLIPPED, shares_applied(factors, off))) is fits


@pytest.mark.parametrize(
    ("regime", "by", "fits"),
    [("normal", 1e-5, True), ("normal", 0.1, False), ("tiny", 1e-5, True), ("tiny", 1e3, False)],
)
def test_a_lost_epsilon_changes_an_output_by_little(regime: Regime, by: float, *, fits: bool) -> None:
    case = a_case(fed=Data(batch=4, regime=regime))
    wrong = candidate(case, wrong_at(Stage.FORWARD, "output", by=by))
    assert ("lost_epsilon" in predicted(case, wrong)) is fits


ROWS = (Shard(0),)
BEFORE, BEHIND = Linear(inputs=4, outputs=5), Linear(inputs=5, outputs=2, bias=False)
PLAIN = a_case((BEFORE, BEHIND), mesh=(("tp", 2),))


def can_be_of_a_norm(spoil: Spoil, stage: Stage, width: int = 5) -> bool:
    """Whether a run can be one with an RMS norm of so many columns, sharded over two ranks."""
    norm = RMSNorm(width=width)
    layers = (Linear(inputs=4, outputs=width), norm, Linear(inputs=width, outputs=2, bias=False))
    case = a_case(layers, mesh=(("tp", 2),), sharded={"1.weight": ROWS})
    run = measure_run(case, "backend", "side", oracle(PLAIN), candidate(PLAIN, spoil))
    tensor = "output" if stage is Stage.FORWARD else "0.weight"
    return load("another_mean_square").predicts(run, (0, stage, tensor))


@pytest.mark.parametrize(
    ("factors", "off", "fits"),
    [
        ((0.9, 1.09), 0.0, True),
        ((1.0, 0.95), 0.0, True),
        ((0.8, 1.0), 0.0, False),
        ((1.2, 1.0), 0.0, False),
        ((1.0, 1.0), 0.0, False),
        ((0.9, 1.09), 1e-3, False),
    ],
)
@pytest.mark.parametrize("stage", [Stage.FORWARD, Stage.BACKWARD])
def test_rows_behind_an_uneven_norm_have_factors_that_the_shards_bound(
    stage: Stage, factors: tuple[float, float], off: float, *, fits: bool
) -> None:
    """A gradient is that of the norm where the output of its step is."""

    def spoil(_step: int, key: Key, value: Floats) -> Floats:
        if key == (Stage.FORWARD, "output"):
            by_row = np.resize(np.asarray(factors), (len(value), 1))
            return np.asarray(value * by_row + off * np.eye(*value.shape))
        return value

    assert can_be_of_a_norm(spoil, stage) is fits
    assert not can_be_of_a_norm(spoil, stage, width=6)


NORMED = a_case(
    (
        BuildingBlock(
            block="batch_norm",
            arguments={},
            parameters={},
            inputs=4,
            outputs=4,
            held_buffers={"norm.running_var": (4,)},
        ),
    ),
    training=Training(accumulation=2),
    sharded={"0.norm.running_var": (Replicate(),)},
)


@pytest.mark.parametrize(
    ("factor", "off", "fits"),
    [(7 / 8, 0.0, True), (1 / 2, 0.0, True), (0.83, 0.0, False), (9 / 8, 0.0, False), (7 / 8, 1e-3, False)],
)
def test_a_biased_variance_lacks_one_part_of_the_number_of_values(
    factor: float, off: float, *, fits: bool
) -> None:
    added, name = np.array([1.0, 2.0, 0.5, 3.0]), "0.norm.running_var"
    kept = 0.9**NORMED.training.accumulation
    value = kept + factor * added + np.array([off, 0.0, 0.0, 0.0])
    expected, actual = (one_buffer(name, whole) for whole in (kept + added, value))
    run = measure_run(NORMED, "backend", "side", expected, actual)
    assert load("biased_variance").predicts(run, (0, Stage.UPDATE, name)) is fits


@pytest.mark.parametrize("momentum", [0.125, 0.25])
def test_the_momentum_of_a_norm_is_that_of_its_block(momentum: float) -> None:
    (norm,), added, name = NORMED.model.layers, np.array([1.0, 2.0, 0.5, 3.0]), "0.norm.running_var"
    model = replace(NORMED.model, layers=(replace(norm, arguments={"momentum": momentum}),))
    kept = (1.0 - momentum) ** NORMED.training.accumulation
    expected, actual = (one_buffer(name, kept + share * added) for share in (1.0, 7 / 8))
    for case, fits in ((replace(NORMED, model=model), True), (NORMED, False)):
        run = measure_run(case, "backend", "side", expected, actual)
        assert load("biased_variance").predicts(run, (0, Stage.UPDATE, name)) is fits


@pytest.mark.parametrize(("name", "initial"), [("0.norm.running_mean", 0.0), ("0.norm.running_var", 1.0)])
def test_kept_statistics_are_as_they_were_initially(name: str, initial: float) -> None:
    kept, truth = np.full(4, initial), np.array([0.25, 0.5, 0.75, 1.25])
    for value, fits in ((kept, True), (kept + 1e-3, False), (2 * truth, False), (np.full(4, 0.5), False)):
        run = measure_run(NORMED, "backend", "side", one_buffer(name, truth), one_buffer(name, value))
        assert load("kept_statistics").predicts(run, (0, Stage.UPDATE, name)) is fits


def one_buffer(name: str, value: Floats) -> Trace:
    """A trace of one step that has one buffer alone."""
    key = (Stage.UPDATE, name)

    def held(whole: Floats) -> Sharded:
        pieces = dict.fromkeys(range(NORMED.world_size), whole)
        return Sharded(shape=(4,), dtype="float64", placements=(Replicate(),), pieces=pieces)

    return Trace(steps=({key: held(value)},), noise=({key: held(np.full(4, 1e-9))},))


def of_block(name: str, arguments: Arguments, sequence: int = 0) -> Case:
    """A case of one block, data parallel over two ranks."""
    block = layer(name, arguments)
    held = dict.fromkeys((f"0.{name}" for name in block.held_buffers), (Replicate(),))
    return a_case((block,), fed=Data(batch=2), sequence=sequence, sharded=held)


def forward(value: Floats, loss: float) -> Trace:
    """A trace of one step that has an output and a loss."""

    def held(whole: Floats) -> Sharded:
        pieces = dict.fromkeys(range(2), whole)
        return Sharded(shape=whole.shape, dtype="float64", placements=(Replicate(),), pieces=pieces)

    tensors = {"output": value, "loss": np.array(loss)}
    keys = {(Stage.FORWARD, name): whole for name, whole in tensors.items()}
    noise = {key: held(np.full(whole.shape, 1e-9)) for key, whole in keys.items()}
    return Trace(steps=({key: held(whole) for key, whole in keys.items()},), noise=(noise,))


def require_predicted(name: str, case: Case, right: Floats, wrong: Floats) -> None:
    """The prediction is about these outputs and their loss, and about no others."""
    targets = numbers.batch(case, 0).targets

    def shown(value: Floats) -> Trace:
        return forward(value, float(((value - targets) ** 2).mean()))

    for tensor in ("output", "loss"):
        at = (0, Stage.FORWARD, tensor)
        for value, fits in ((wrong, True), (wrong + 1e-3, False), (right, False), (2 * right, False)):
            run = measure_run(case, "backend", "side", shown(right), shown(value))
            assert load(name).predicts(run, at) is fits, (tensor, value)


@pytest.mark.parametrize(("weighted", "ignored"), [(True, False), (False, True), (True, True)])
def test_a_cross_entropy_by_rank_is_the_mean_of_the_ranks_means(
    monkeypatch: pytest.MonkeyPatch, *, weighted: bool, ignored: bool
) -> None:
    options = {"vocabulary": 4, "classes": 4, "smoothing": 0.0, "weighted": weighted}
    case = of_block("cross_entropy", {**options, "ignored": ignored, "reduction": "mean"}, sequence=2)
    ids, logits = np.array([[0, 1], [2, 3]]), np.random.default_rng(1).normal(size=(4, 4))
    fed = changed(numbers.batch(case, 0), inputs=ids)
    monkeypatch.setattr(numbers, "batch", lambda *_: fed)
    monkeypatch.setattr(numbers, "weights", lambda _: {"0.logits.weight": logits})
    losses, weights = {}, {}
    for token, target in {0: 1, 1: 0, 2: 3, 3: 2}.items():
        factor = [0.25, 0.5, 0.75, 1.0][target] if weighted else 1.0
        weights[token] = 0.0 if ignored and target == 0 else factor
        score = logits[token][target] - np.log(np.exp(logits[token]).sum())
        losses[token] = -score * weights[token]
    ranks = [sum(losses[one] for one in own) / sum(weights[one] for one in own) for own in ids.tolist()]
    right, wrong = sum(losses.values()) / sum(weights.values()), sum(ranks) / 2
    require_predicted("cross_entropy_by_rank", case, *(np.full((2, 2, 1), one) for one in (right, wrong)))


def test_exchanged_columns_are_those_of_the_images_of_the_other_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ones everywhere a padded sum over 3 x 3 is 9, at edges 6 and in corners 4; one edge is none."""
    sizes = {"channels": 1, "filters": 1, "side": 4, "kernel": 3}
    case = of_block("convolution", {**sizes, "norm": "none", "pool": "adaptive"})
    fed = changed(numbers.batch(case, 0), inputs=np.ones((2, 16)))
    monkeypatch.setattr(numbers, "batch", lambda *_: fed)
    kernel = {"0.conv.weight": np.ones((1, 1, 3, 3)), "0.conv.bias": np.zeros(1)}
    monkeypatch.setattr(numbers, "weights", lambda _: kernel)
    right, wrong = (4 * 4 + 8 * 6 + 4 * 9) / 16, (2 * 4 + 2 * 6 + 3 * 2 * 6 + 3 * 2 * 9) / 16
    require_predicted("exchanged_columns", case, *(np.full((2, 1), one) for one in (right, wrong)))


def test_a_block_of_another_kind_has_no_such_fault() -> None:
    case = of_block(
        "convolution", {"channels": 1, "filters": 1, "side": 4, "kernel": 1, "norm": "none", "pool": "max"}
    )
    value = np.ones((2, 4))
    run = measure_run(case, "backend", "side", forward(value, 0.0), forward(2 * value, 0.0))
    assert [name for name in names() if load(name).predicts(run, (0, Stage.FORWARD, "output"))] == []
