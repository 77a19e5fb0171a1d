"""Two recorded runs are compared: what else differs, the first wrong place, whether it is rounding."""

from pathlib import Path

import numpy as np
import pytest
from sample_runs import DIGEST, NAMES, noisy, training, write

import difftest
import difftest.ground.errors
from difftest.runs import layout, words
from difftest.runs.comparison import DATA, DIFFER, EQUAL, LOSS, UNDECIDED

RUN = training()


def changed(
    step: int, kind: str, owner: str, times: float, size: float = 1e-7
) -> list[dict[tuple[str, str], layout.Floats]]:
    """The training with noise, in which one tensor is multiplied."""
    steps = noisy(RUN, size, seed=2)
    steps[step][kind, owner] = steps[step][kind, owner] * times
    return steps


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return write(tmp_path / "first", RUN)


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    return write(tmp_path / "noise", noisy(RUN), perturbed=1.0)


def test_what_differs_by_noise_is_equal_within_rounding(first: Path, noise: Path, tmp_path: Path) -> None:
    second = write(tmp_path / "second", noisy(RUN, 3e-6, seed=2))
    found = difftest.compare(first, second, noise=[noise])
    assert (found.verdict, found.status, found.first, found.measured) == (EQUAL, 0, None, True)
    assert 1 < found.greatest < 10
    assert found.compared == sum(map(len, RUN))
    assert "equal within rounding in all 3 steps" in words.verdict(found)


@pytest.mark.parametrize(
    "wrong",
    [
        (0, layout.START, "block.mlp.weight", "the parameter block.attn.weight before the first step"),
        (1, layout.OUTPUT, "block.attn", "the output of embed"),
        (1, layout.OUTPUT_GRADIENT, "block.mlp", "the gradient of head.weight"),
        (2, layout.GRADIENT, "block.attn.weight", "the gradient of the output of block.attn"),
        (2, layout.UPDATED, "head.weight", "the parameter block.mlp.weight after its update"),
    ],
)
def test_the_first_wrong_tensor_is_named(
    first: Path, noise: Path, tmp_path: Path, wrong: tuple[int, str, str, str]
) -> None:
    step, kind, owner, before = wrong
    second = write(tmp_path / "second", changed(step, kind, owner, 1 + 1e-3, size=1e-6))
    found = difftest.compare(first, second, noise=[noise])
    assert found.first
    assert (found.verdict, found.status) == (DIFFER, 1)
    assert (found.first.step, found.first.kind, found.first.owner) == (step, kind, owner)
    assert found.first.before == before
    assert found.first.ratio == pytest.approx(1000, rel=0.6)
    assert found.wrong == {kind: 1}


def test_without_noise_a_bound_finds_what_is_far_off_and_says_that_it_is_a_bound(
    first: Path, tmp_path: Path
) -> None:
    second = write(tmp_path / "second", changed(1, layout.OUTPUT, "block.attn", 1.01))
    found = difftest.compare(first, second)
    assert found.first
    assert (found.first.step, found.first.owner, found.measured) == (1, "block.attn", False)
    near = difftest.compare(first, write(tmp_path / "near", noisy(RUN, 3e-7, seed=2)))
    assert near.verdict == EQUAL
    assert "only bounded" in words.evidence(near)


def test_without_noise_more_updates_since_the_last_recorded_step_allow_more_rounding(tmp_path: Path) -> None:
    """As 50 steps of a transformer, each fifth recorded, on one process and in a pipeline."""
    key, far = (layout.OUTPUT, "block.attn"), noisy(RUN, 1e-8, seed=2)
    far[1][key] = RUN[1][key] * (1 + 1.5e-5)
    verdicts = {
        every: difftest.compare(
            write(tmp_path / f"one{every}", RUN, every=every),
            write(tmp_path / f"two{every}", far, every=every),
        ).verdict
        for every in (1, 5)
    }
    assert verdicts == {1: DIFFER, 5: EQUAL}


def test_without_noise_a_first_update_may_turn_around_where_the_gradient_is_only_rounding(
    tmp_path: Path,
) -> None:
    """As Adam's for the bias of the keys, whose gradient is zero: `sdpa` beside `flex_attention`."""
    updated = (layout.UPDATED, "block.attn.weight")
    one, two = training(1), training(1)
    one[0][updated], two[0][updated] = (
        one[0][layout.START, "block.attn.weight"]
        + np.where(np.arange(one[0][updated].size) < turned, -1e-3, 1e-3).reshape(one[0][updated].shape)
        for turned in (0, 1)
    )
    found = difftest.compare(write(tmp_path / "a", one), write(tmp_path / "b", two))
    assert found.verdict == EQUAL
    two[0][updated] = one[0][updated] + 1e-3
    assert difftest.compare(write(tmp_path / "a2", one), write(tmp_path / "b2", two)).verdict == DIFFER


def test_a_first_update_may_turn_around_in_the_few_elements_whose_gradient_is_rounding(
    tmp_path: Path,
) -> None:
    """As a norm's bias did in bfloat16 on a GPU and on a CPU, while the repetition turned none around."""
    key, one = (layout.UPDATED, "block.attn.weight"), training(1)
    before = one[0][layout.START, "block.attn.weight"]
    steps = np.where(np.arange(before.size) % 2, -1e-3, 1e-3).reshape(before.shape)
    one[0][key] = before + steps
    first = write(tmp_path / "a", one)
    noise = write(tmp_path / "noise", noisy(one, 1e-6), perturbed=1.0)
    rough = noisy(one, 1e-2)
    rough[0][key] = one[0][key]
    rough_noise = write(tmp_path / "rough", rough, perturbed=1.0)
    turned, spread = noisy(one, 1e-6, seed=2), noisy(one, 1e-6, seed=2)
    turned[0][key] = before + np.where(np.arange(before.size).reshape(before.shape) == 5, -steps, steps)
    spread[0][key] = before + steps * (1 + 2 / np.sqrt(before.size))
    second, other = write(tmp_path / "b", turned), write(tmp_path / "c", spread)
    assert difftest.compare(first, second, noise=[rough_noise]).verdict == EQUAL
    assert difftest.compare(first, other, noise=[rough_noise]).verdict == DIFFER
    assert (
        difftest.compare(first, second, noise=[noise]).verdict == DIFFER
    )  # no gradient was that near to zero


def test_a_difference_that_grows_smoothly_is_not_accused_without_noise(tmp_path: Path) -> None:
    steps = training(13)
    grown = [noisy([step], 1e-7 * 3**index, seed=index)[0] for index, step in enumerate(steps)]
    found = difftest.compare(write(tmp_path / "a", steps), write(tmp_path / "b", grown))
    assert found.verdict == EQUAL


def test_where_noise_is_as_large_as_the_gradients_nothing_is_accused(tmp_path: Path) -> None:
    steps = training(6)
    chaos = [1e-6, 1e-4, 1e-2, 0.6, 1.0, 1.0]
    perturbed = [noisy([step], chaos[index], seed=5)[0] for index, step in enumerate(steps)]
    other = [noisy([step], chaos[index], seed=6)[0] for index, step in enumerate(steps)]
    noise = write(tmp_path / "noise", perturbed, perturbed=1.0)
    found = difftest.compare(write(tmp_path / "a", steps), write(tmp_path / "b", other), noise=[noise])
    assert (found.verdict, found.horizon) == (EQUAL, 3)
    assert [point.comparable for point in found.points] == [True, True, True, False, False, False]
    assert "can no longer be compared" in words.verdict(found)


def test_runs_that_rounding_parts_from_the_start_cannot_be_compared(tmp_path: Path) -> None:
    noise = write(tmp_path / "noise", noisy(RUN, 1.0), perturbed=1.0)
    second = write(tmp_path / "b", noisy(RUN, 1.0, 3))
    found = difftest.compare(write(tmp_path / "a", RUN), second, noise=[noise])
    assert (found.verdict, found.status, found.compared) == (UNDECIDED, 3, 0)


def test_a_factor_of_the_world_size_is_recognised(first: Path, tmp_path: Path) -> None:
    steps = noisy(RUN, 1e-7)
    for (kind, owner), value in [*steps[0].items()]:
        if kind == layout.GRADIENT:
            steps[0][kind, owner] = value * 4
    found = difftest.compare(first, write(tmp_path / "second", steps, ranks=4, cut=True))
    assert found.first
    assert found.first.kind == layout.GRADIENT
    assert any("4 times" in hint and "data-parallel ranks" in hint for hint in found.hints)
    assert any("Every gradient has the same factor" in hint for hint in found.hints)


def test_gradients_of_outputs_may_have_the_factor_of_the_layout_by_convention(
    first: Path, tmp_path: Path
) -> None:
    steps = noisy(RUN, 1e-7)
    for tensors in steps:
        for (kind, owner), value in [*tensors.items()]:
            if kind == layout.OUTPUT_GRADIENT:
                tensors[kind, owner] = value * 4
    found = difftest.compare(first, write(tmp_path / "second", steps, ranks=4, cut=True))
    assert found.verdict == EQUAL
    assert any("by convention" in note for note in found.notes)


def test_losses_may_have_the_factor_of_the_layout_by_convention(first: Path, tmp_path: Path) -> None:
    steps, losses = noisy(RUN, 1e-7), [8.0, 7.6, 7.2]
    found = difftest.compare(first, write(tmp_path / "second", steps, ranks=4, cut=True, losses=losses))
    assert found.verdict == EQUAL
    assert any("Losses are 4 times" in note for note in found.notes)
    assert [point.second for point in found.points] == pytest.approx([2.0, 1.9, 1.8])
    for tensors in steps:
        tensors[layout.GRADIENT, "head.weight"] = tensors[layout.GRADIENT, "head.weight"] * 4
    wrong = write(tmp_path / "wrong", steps, ranks=4, cut=True, losses=losses)
    assert difftest.compare(first, wrong).status == 1


def test_a_stale_copy_names_its_rank(first: Path, tmp_path: Path) -> None:
    stale = noisy(RUN, 0)
    stale[1][layout.UPDATED, "block.mlp.weight"] = RUN[1][layout.UPDATED, "block.mlp.weight"] * 1.5
    second = write(tmp_path / "second", RUN, ranks=4, changed={2: stale})
    found = difftest.compare(first, second)
    assert found.first
    assert (found.first.step, found.first.owner, found.first.ranks) == (1, "block.mlp.weight", (2,))
    assert any("rank 2 is stale" in hint for hint in found.hints)


def test_the_rank_with_the_wrong_share_is_named_where_both_runs_are_cut_alike(tmp_path: Path) -> None:
    wrong = changed(1, layout.OUTPUT, "block.attn", 2.0)
    first = write(tmp_path / "first", RUN, ranks=4, cut=True)
    second = write(
        tmp_path / "second",
        changed(0, layout.START, "embed.weight", 1.0),
        ranks=4,
        cut=True,
        changed={3: wrong},
    )
    found = difftest.compare(first, second)
    assert found.first
    assert (found.first.owner, found.first.ranks) == ("block.attn", (3,))
    assert "data-parallel rank 3 of 4" in found.first.share


def test_runs_of_different_layouts_are_compared_whole(first: Path, tmp_path: Path) -> None:
    found = difftest.compare(first, write(tmp_path / "second", noisy(RUN, 1e-7), ranks=4, cut=True))
    assert (found.verdict, found.skipped) == (EQUAL, {})
    assert {"ranks", "data-parallel ranks"} <= {one.name for one in found.settings}


@pytest.mark.parametrize(
    ("digest", "says"),
    [((1, 2, 3), "other samples"), ((1, 2, DIGEST[1]), "shifted by one position")],
)
def test_other_data_are_the_first_thing_said(
    first: Path, tmp_path: Path, digest: tuple[int, int, int], says: str
) -> None:
    second = write(tmp_path / "second", changed(0, layout.OUTPUT, "embed", 2.0), digests={"0": digest})
    found = difftest.compare(first, second)
    assert found.first
    assert (found.first.kind, found.first.owner, found.compared) == (DATA, "0", 0)
    assert says in found.hints[0]


def test_the_same_samples_in_another_order_leave_parameters_and_losses_to_compare(tmp_path: Path) -> None:
    steps = [{(layout.INPUT, "0"): np.arange(64.0).reshape(4, 16), **tensors} for tensors in RUN]
    outputs = (layout.INPUT, layout.OUTPUT, layout.OUTPUT_GRADIENT)
    turned = [
        {key: value[::-1] if key[0] in outputs else value for key, value in tensors.items()}
        for tensors in steps
    ]
    first, second = (
        write(tmp_path / "a", steps, cut=True, ranks=2),
        write(tmp_path / "b", turned, cut=True, ranks=2),
    )
    found = difftest.compare(first, second)
    assert found.verdict == "equal within rounding", found.first
    assert found.skipped == {"their samples are in another order": 24}
    assert "another order" in found.notes[0]
    turned[1][layout.GRADIENT, "head.weight"] = turned[1][layout.GRADIENT, "head.weight"] * 2
    wrong = difftest.compare(first, write(tmp_path / "c", turned, cut=True, ranks=2)).first
    assert wrong
    assert (wrong.step, wrong.kind, wrong.owner) == (1, layout.GRADIENT, "head.weight")


def test_modules_of_one_class_that_differ_alike_are_one_row(tmp_path: Path) -> None:
    old, new = (dict.fromkeys(NAMES, f"eps={eps}") for eps in ("1e-05", "0.001"))
    first, second = (write(tmp_path / name, RUN, arguments=own) for name, own in (("a", old), ("b", new)))
    rows = words.grouped(difftest.compare(first, second).settings)
    assert [(row.name, row.first, row.second) for row in rows] == [
        ("embed and 3 more (Linear)", "eps=1e-05", "eps=0.001")
    ]


def test_arguments_that_every_module_of_a_class_prints_in_one_release_alone_are_no_difference(
    tmp_path: Path,
) -> None:
    old = {"embed": "8, eps=1e-05", "head": "8, eps=1e-05"}
    new = {"embed": "8, eps=1e-05, bias=True", "head": "8, eps=0.001, bias=True"}
    first = write(
        tmp_path / "old", RUN, arguments=old | dict.fromkeys(("block.attn", "block.mlp"), "8, eps=1")
    )
    more = new | dict.fromkeys(("block.attn", "block.mlp"), "8, eps=1, bias=True")
    for release, printed in (("2.9.0", "eps=0.001, bias=True"), ("2.15.0", "eps=0.001")):
        second = write(tmp_path / release, RUN, arguments=more, settings={"torch": release})
        found = difftest.compare(first, second).settings
        own = {one.name: (one.first, one.second) for one in found if one.name.endswith("(Linear)")}
        assert own["head (Linear)"] == ("eps=1e-05", printed)
        assert ("embed (Linear)" in own) == (release == "2.9.0")


def test_a_wrong_loss_of_right_outputs_is_named(first: Path, noise: Path, tmp_path: Path) -> None:
    second = write(tmp_path / "second", noisy(RUN, 1e-6, seed=2), losses=[2.0, 1.7, 1.8])
    found = difftest.compare(first, second, noise=[noise])
    assert found.first
    assert (found.first.kind, found.first.step) == (LOSS, 1)
    assert "labels" in found.hints[0]


def test_a_small_factor_is_named_and_not_taken_for_coarse_rounding(first: Path, tmp_path: Path) -> None:
    second = write(tmp_path / "second", changed(0, layout.OUTPUT, "block.attn", 1.01))
    hints = difftest.compare(first, second).hints
    assert hints[0] == f"It is 1.01 times as large in {second}."
    assert not any("bfloat16" in hint for hint in hints)


def test_runs_whose_model_was_not_called_are_compared_by_what_they_have(tmp_path: Path) -> None:
    first = write(tmp_path / "a", RUN, microbatches=0)
    doubled = [
        {**tensors, (layout.GRADIENT, "embed.weight"): tensors[layout.GRADIENT, "embed.weight"] * 2}
        for tensors in RUN
    ]
    found = difftest.compare(first, write(tmp_path / "b", doubled, microbatches=0))
    assert found.hints[0] == f"It is 2 times as large in {tmp_path / 'b'}."


def test_a_loss_that_is_summed_is_named_by_the_samples_of_a_rank(first: Path, tmp_path: Path) -> None:
    second = write(tmp_path / "second", noisy(RUN, 1e-7), losses=[8.0, 7.6, 7.2])
    found = difftest.compare(first, second)
    assert found.first
    assert found.first.kind == LOSS
    assert found.hints[0].startswith(f"The loss is 4 times as large in {second}: the samples of a rank")
    assert "sum in place of a mean" in found.hints[0]


def test_what_only_one_run_has_in_nan_is_wrong(first: Path, noise: Path, tmp_path: Path) -> None:
    steps = noisy(RUN, 1e-6, seed=2)
    steps[1][layout.OUTPUT, "head"][0, 0] = np.nan
    found = difftest.compare(first, write(tmp_path / "second", steps), noise=[noise])
    assert found.first
    assert (found.first.step, found.first.owner) == (1, "head")
    assert "not finite in one run" in words.place(found.first)


def test_another_argument_of_the_wrong_module_is_a_hint(tmp_path: Path) -> None:
    first = write(tmp_path / "a", RUN, arguments={"block.attn": "eps=1e-05"})
    second = changed(0, layout.OUTPUT, "block.attn", 1.1)
    found = difftest.compare(first, write(tmp_path / "b", second, arguments={"block.attn": "eps=1e-06"}))
    assert any("eps=1e-05 against eps=1e-06" in hint for hint in found.hints)


@pytest.mark.parametrize("step", [0, 1])
def test_a_parameter_that_one_run_does_not_update_is_a_hint(first: Path, tmp_path: Path, step: int) -> None:
    kept = noisy(RUN, 1e-7)
    before = (RUN[0], layout.START) if not step else (RUN[0], layout.UPDATED)
    for name in NAMES:
        kept[step][layout.UPDATED, f"{name}.weight"] = before[0][before[1], f"{name}.weight"]
    found = difftest.compare(first, write(tmp_path / "kept", kept))
    assert found.first
    assert (found.first.kind, found.first.step) == (layout.UPDATED, step)
    assert f"{tmp_path / 'kept'} leaves the parameter as it was" in found.hints[0]
    moved = difftest.compare(first, write(tmp_path / "moved", changed(1, layout.UPDATED, "head.weight", 2.0)))
    assert not any("as it was" in hint for hint in moved.hints)


def test_other_weights_at_the_beginning_are_a_hint(first: Path, tmp_path: Path) -> None:
    found = difftest.compare(first, write(tmp_path / "b", changed(0, layout.START, "embed.weight", 2.0)))
    assert any("begin with other weights" in hint for hint in found.hints)


def test_environments_are_compared_by_name(first: Path, tmp_path: Path) -> None:
    found = difftest.compare(first, write(tmp_path / "second", RUN, settings={"torch": "2.15.0"}))
    (setting,) = found.settings
    assert (setting.name, setting.first, setting.second) == ("torch", "2.9.0", "2.15.0")
    assert found.verdict == EQUAL


OTHER_NAMES = ("model.tokens", "model.layers.0.mixer", "model.layers.0.ffn", "model.out")


def renamed() -> list[dict[tuple[str, str], layout.Floats]]:
    by_name = dict(zip(("embed", "block.attn", "block.mlp", "head"), OTHER_NAMES, strict=True))
    return [
        {
            (
                kind,
                by_name[owner.removesuffix(".weight")] + (".weight" if owner.endswith(".weight") else ""),
            ): value
            for (kind, owner), value in tensors.items()
        }
        for tensors in noisy(RUN, 1e-7)
    ]


def test_modules_of_other_names_are_aligned_by_structure(first: Path, tmp_path: Path) -> None:
    found = difftest.compare(first, write(tmp_path / "second", renamed()))
    assert (found.verdict, found.compared, found.skipped) == (EQUAL, sum(map(len, RUN)), {})
    assert "aligned by structure" in found.notes[0]


def test_a_map_aligns_modules_by_name(first: Path, tmp_path: Path) -> None:
    names = {"embed": "model.tokens", "block.attn": "model.layers.0.mixer", "head": "model.out"}
    found = difftest.compare(first, write(tmp_path / "second", renamed()), names=names)
    assert found.verdict == EQUAL
    assert found.skipped == {"only one of the runs has them": 10}


def test_a_name_that_the_first_run_does_not_have_is_refused(first: Path) -> None:
    with pytest.raises(difftest.ground.errors.UsageError, match="'blok', which is no module"):
        difftest.compare(first, first, names={"blok": "x"})


def test_noise_that_is_not_perturbed_is_refused(first: Path, tmp_path: Path) -> None:
    second = write(tmp_path / "second", RUN)
    with pytest.raises(difftest.ground.errors.UsageError, match="measures no noise"):
        difftest.compare(first, second, noise=[write(tmp_path / "again", RUN)])
