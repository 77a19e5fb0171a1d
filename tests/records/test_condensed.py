"""A condensed bundle gives the verdicts of the whole one, and keeps every bit of what differs."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sample_bundles import CASES as SMALL
from sample_bundles import answer, recorded
from samples import a_case, candidate, oracle

from difftest.cases.layers.linear import Linear
from difftest.ground.errors import UsageError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Outcome, Trace
from difftest.records import bundle_lines, traces
from difftest.records.bundle import BundleWriter, Joined
from difftest.records.bundle_archive import pack, unpacked
from difftest.records.bundle_condensing import condense
from difftest.records.condensed import condensed, restore, shortened

ORACLE = "oracle"
DDP, SPMD = ("ddp", "torch", "torch"), ("spmd", "xla", "torch_xla")
LARGE = a_case((Linear(inputs=8, outputs=16), Linear(inputs=16, outputs=4)), seed=3)
CASES = (LARGE, *SMALL)


def bundle(root: Path, *backends: tuple[str, str, str], wrong: tuple[str, ...] = ()) -> Path:
    """A bundle of each sample case, of the oracle and of these backends twice."""
    recorder = BundleWriter(root, backends)
    for index, case in enumerate(CASES):
        recorder.keep(index, case, (ORACLE, ORACLE, ""), {}, oracle(case))
        for who in (*backends, *backends):
            recorder.keep(index, case, who, {}, answer(case, who[0], wrong))
    return root


def verdicts(*roots: Path) -> dict[tuple[str, str], str]:
    """The verdict on each backend's run of each case."""
    joined = Joined(roots, ORACLE)
    return {
        (case.id, name): compare(
            case, name, traits.SIDE, joined.execute(case, ORACLE, {}), joined.execute(case, name, {})
        ).verdict
        for _, case in joined.cases
        for name, traits in joined.backends.items()
    }


def of(root: Path) -> list[bundle_lines.RunLine]:
    return [*bundle_lines.lines(root)]


def bits(trace: Trace) -> list[bytes]:
    """Every tensor of rank 0, as bytes."""
    return [tensor.pieces[0].tobytes() for step in trace.steps for tensor in step.values()]


def off(trace: Outcome, by: float) -> Trace:
    """The run with its greatest gradient element changed by a share of itself."""
    assert isinstance(trace, Trace)
    for step in trace.steps:
        for (stage, _), tensor in step.items():
            if stage == "backward":
                for piece in tensor.pieces.values():
                    piece.flat[np.abs(piece).argmax()] *= 1 + by
    return trace


def test_a_condensed_bundle_gives_the_verdicts_of_the_whole_one(tmp_path: Path) -> None:
    whole = bundle(tmp_path / "whole", DDP)
    small = Path(shutil.copytree(whole, tmp_path / "small"))
    condense(small, ORACLE)
    assert all(run.beside is not None for run in of(small))
    assert verdicts(small) == verdicts(whole)
    assert set(verdicts(small).values()) == {"agree"}


def test_errors_are_measured_as_before_within_a_fraction_of_the_noise(tmp_path: Path) -> None:
    whole = bundle(tmp_path / "whole", DDP)
    small = Path(shutil.copytree(whole, tmp_path / "small"))
    condense(small, ORACLE)
    for case in CASES:
        ratios = []
        for root in (whole, small):
            joined = Joined([root], ORACLE)
            runs = joined.execute(case, ORACLE, {}), joined.execute(case, "ddp", {})
            ratios.append([m.ratio for m in compare(case, "ddp", "torch", *runs).measurements])
        assert np.allclose(ratios[0], ratios[1], rtol=0.1, atol=0.15)


def divergences(root: Path) -> list[object]:
    joined = Joined([root], ORACLE)
    return [
        compare(
            case, name, traits.SIDE, joined.execute(case, ORACLE, {}), joined.execute(case, name, {})
        ).divergences
        for _, case in joined.cases
        for name, traits in joined.backends.items()
    ]


def test_a_case_in_which_a_run_differs_keeps_the_digits_of_what_differs(tmp_path: Path) -> None:
    whole = bundle(tmp_path / "whole", DDP, SPMD, wrong=("spmd",))
    small = Path(shutil.copytree(whole, tmp_path / "small"))
    condense(small, ORACLE)
    assert divergences(small) == divergences(whole)
    assert any(divergences(whole))
    size, before = (sum(file.stat().st_size for file in (root / "runs").iterdir()) for root in (small, whole))
    assert size < before


@pytest.mark.parametrize("first", ["wrong", "right"])
def test_bundles_of_one_case_share_the_digits_that_one_of_them_kept(tmp_path: Path, first: str) -> None:
    right, wrong = bundle(tmp_path / "right", DDP), bundle(tmp_path / "wrong", SPMD, wrong=("spmd",))
    expected = verdicts(right, wrong)
    for root in (right, wrong):
        condense(root, ORACLE)
    roots = (wrong, right) if first == "wrong" else (right, wrong)
    assert verdicts(*roots) == expected
    assert set(expected.values()) == {"agree", "diverge"}


@pytest.mark.parametrize("first", ["whole", "small"])
def test_a_condensed_run_is_judged_beside_the_oracle_of_a_whole_bundle(tmp_path: Path, first: str) -> None:
    small, whole = bundle(tmp_path / "small", DDP), bundle(tmp_path / "whole", SPMD, wrong=("spmd",))
    expected = verdicts(small, whole)
    condense(small, ORACLE)
    roots = (whole, small) if first == "whole" else (small, whole)
    assert verdicts(*roots) == expected
    assert set(expected.values()) == {"agree", "diverge"}


def test_runs_that_differ_in_one_bit_still_differ_or_stay_whole() -> None:
    truth, run, other = oracle(LARGE), candidate(LARGE), candidate(LARGE)
    assert isinstance(truth, Trace)
    assert isinstance(run, Trace)
    assert isinstance(other, Trace)
    gradient = next(tensor for (stage, _), tensor in other.steps[0].items() if stage == "backward")
    gradient.pieces[0].flat[0] = np.nextafter(gradient.pieces[0].flat[0], np.float32(9))
    kept = condensed(LARGE, [truth], {1: ("ddp", "torch", run), 2: ("ddp", "torch", other)})
    assert kept is None or bits(kept[1][1]) != bits(kept[1][2])


def test_a_tensor_that_is_wrong_keeps_every_bit() -> None:
    truth, run = oracle(LARGE), off(candidate(LARGE), 0.5)
    assert isinstance(truth, Trace)
    kept = condensed(LARGE, [truth], {1: ("ddp", "torch", run)})
    assert kept is not None
    (rough,), small = kept
    wrong = [
        (index, key)
        for index, (step, made) in enumerate(zip(run.steps, small[1].steps, strict=True))
        for key, tensor in step.items()
        if key[0] == "backward" and np.array_equal(made[key].pieces[0], tensor.pieces[0])
    ]
    assert wrong
    assert all(
        np.array_equal(rough.steps[i][key].pieces[0], truth.steps[i][key].pieces[0]) for i, key in wrong
    )


def test_zeros_keep_their_place_and_sign() -> None:
    truth, run = oracle(LARGE), candidate(LARGE)
    assert isinstance(truth, Trace)
    assert isinstance(run, Trace)
    for trace in (truth, run):
        for key in [key for key in trace.steps[0] if key[0] == "backward"]:
            for piece in trace.steps[0][key].pieces.values():
                piece.flat[0] = -0.0
    kept = condensed(LARGE, [truth], {1: ("ddp", "torch", run)})
    assert kept is not None
    (rough,), small = kept
    restored = restore(LARGE, rough, rough, small[1])
    for key in [key for key in run.steps[0] if key[0] == "backward"]:
        for piece in restored.steps[0][key].pieces.values():
            assert piece.flat[0] == 0
            assert np.signbit(piece.flat[0])


def test_numbers_are_shortened_to_a_sixteenth_and_zeros_keep_their_signs() -> None:
    values = np.array([0.0, -0.0, 1.0, -3.14159, 1e-300, 6.02e23])
    short = shortened(values)
    assert np.array_equal(np.signbit(short), np.signbit(values))
    assert np.array_equal(short == 0, values == 0)
    assert (np.abs(short - values) <= np.abs(values) / 16).all()


def test_a_case_that_no_backend_ran_keeps_no_oracle(tmp_path: Path) -> None:
    recorder = BundleWriter(tmp_path, [DDP])
    recorder.keep(0, CASES[0], (ORACLE, ORACLE, ""), {}, oracle(CASES[0]))
    recorder.miss(0, CASES[0], {"ddp": ("unsupported", "it has no such layer")})
    condense(tmp_path, ORACLE)
    assert of(tmp_path) == []
    assert not [*(tmp_path / "runs").iterdir()]
    joined = Joined([tmp_path], ORACLE)
    assert [case.id for _, case in joined.cases] == [CASES[0].id]
    assert joined.backends["ddp"].unsupported(CASES[0]) == "it has no such layer"


def test_a_condensed_run_that_does_not_fit_its_oracle_is_refused(tmp_path: Path) -> None:
    root = bundle(tmp_path / "bundle", DDP)
    condense(root, ORACLE)
    other = a_case(seed=9)
    kept = next(run for run in of(root) if run.backend == "ddp")
    difference = traces.load(root / "runs" / str(kept.number))
    assert isinstance(difference, Trace)
    truth = oracle(other)
    assert isinstance(truth, Trace)
    with pytest.raises(UsageError, match="does not fit its oracle"):
        restore(CASES[0], Trace(steps=truth.steps[:0]), Trace(steps=()), difference)


def test_a_line_that_is_condensed_beside_no_oracle_is_refused(tmp_path: Path) -> None:
    root = bundle(tmp_path / "bundle", DDP)
    condense(root, ORACLE)
    file = root / "runs.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"beside":0', b'"beside":77'))
    joined = Joined([root], ORACLE)
    with pytest.raises(UsageError, match="condensed beside run 77, which is no oracle's"):
        joined.execute(CASES[0], "ddp", {})


def test_an_archive_of_a_condensed_bundle_compares_as_the_folder_did(tmp_path: Path) -> None:
    expected = verdicts(bundle(tmp_path / "whole", DDP))
    condense(bundle(tmp_path / "small", DDP), ORACLE)
    pack(tmp_path / "small", tmp_path / "small.zip")
    with unpacked([tmp_path / "small.zip"]) as (folder,):
        assert verdicts(folder) == expected


def test_an_archive_of_repeated_runs_is_at_least_ten_times_smaller_than_its_bundle(tmp_path: Path) -> None:
    root = recorded(tmp_path / "bundle", "ddp", wrong=())
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    condense(root, ORACLE)
    pack(root, tmp_path / "bundle.zip")
    assert (tmp_path / "bundle.zip").stat().st_size * 10 < size
