"""The losses of a run and the pieces of a wrong tensor: what is recorded for a reader to look at."""

from dataclasses import replace as with_fields
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from sample_findings import BEGAN, ParsedPage, a_corpus, a_finding, an_observation
from samples import (
    Floats,
    a_case,
    a_failure,
    candidate,
    oracle,
    tensor_parallel_case,
    with_tensor,
    wrong_at,
)

from difftest.campaign.campaign import BackendRun
from difftest.cases.case import Training
from difftest.cases.layout import Mesh
from difftest.judge.comparator import compare
from difftest.judge.losses import Losses, losses
from difftest.judge.noise import FLOORS_MOST
from difftest.judge.pieces import Piece
from difftest.judge.stage import Stage
from difftest.records import index
from difftest.records.curves import Curve, curves
from difftest.records.finding import Finding
from difftest.records.resume import resumed
from reports.page.curves import drawing
from reports.page.grid import of_pieces
from reports.report import build
from reports.write import write

LONG = Training(steps=4)
TRUTH = Losses(values=(1.0, 0.5, 0.25), noise=(1e-6, 2e-6, 3e-6))
RIGHT, WRONG = Losses(values=(1.0, 0.500002, 0.25)), Losses(values=(1.0, 0.9, FLOORS_MOST))


def test_a_run_of_several_steps_has_a_loss_for_each_and_the_oracle_their_noise() -> None:
    case = a_case(training=LONG)
    truth, run = losses(oracle(case)), losses(candidate(case))
    assert len(truth.values) == len(truth.noise) == len(run.values) == LONG.steps
    assert truth.values == pytest.approx(run.values, rel=1e-5)
    assert all(noise > 0 for noise in truth.noise)
    assert not run.noise


def test_one_step_a_failure_and_a_loss_that_is_no_number() -> None:
    assert losses(oracle(a_case())) == losses(a_failure()) == Losses()
    case = a_case(training=LONG)
    run = candidate(case, wrong_at(Stage.FORWARD, "loss", by=np.nan, step=1))
    assert losses(run).values[1:] == (FLOORS_MOST,) * 3


@pytest.mark.parametrize("pieces", [{}, {0: np.zeros(0)}, {0: np.zeros(2)}], ids=["none", "empty", "two"])
def test_a_run_whose_losses_are_not_one_number_each_has_no_curve(pieces: dict[int, Floats]) -> None:
    run, key = candidate(a_case(training=LONG)), (Stage.FORWARD, "loss")
    spoiled = with_tensor(run, 1, key, with_fields(run.steps[1][key], pieces=pieces))
    assert losses(spoiled) == Losses()


def test_a_run_keeps_its_losses_without_its_tensors() -> None:
    outcome = candidate(a_case(training=LONG))
    run = BackendRun(backend="torch_ddp", outcome=outcome, started=BEGAN.isoformat(), seconds=1.0)
    kept = run.without_tensors()
    assert kept.losses == losses(outcome)


def test_a_divergence_has_the_error_of_every_rank_s_piece() -> None:
    case = tensor_parallel_case()
    spoiled = candidate(case, wrong_at(Stage.BACKWARD, "0.weight"))
    right, wrong = compare(case, "xla_spmd", "xla", oracle(case), spoiled).pieces
    assert (right.rank, right.part, right.elements, right.wrong) == (0, ((0, 2), (0, 4)), 8, 0)
    assert (wrong.rank, wrong.part, wrong.elements, wrong.wrong) == (1, ((2, 3), (0, 4)), 4, 1)
    assert right.ratio < 10 < wrong.ratio
    assert not compare(case, "xla_spmd", "xla", oracle(case), candidate(case)).pieces
    assert not compare(case, "xla_spmd", "xla", oracle(case), a_failure()).pieces


def of_ranks(wrong: int, ranks: int) -> Finding:
    """A finding whose tensor is wrong on one rank."""
    each = (
        Piece(rank=n, part=((n, n + 1),), elements=1, wrong=int(n == wrong), ratio=5e3 if n == wrong else 0.2)
        for n in range(ranks)
    )
    return replace(a_finding(tensor="0.bias"), pieces=tuple(each))


def test_pieces_are_a_grid_of_the_mesh() -> None:
    finding = of_ranks(wrong=5, ranks=6)
    grid = of_pieces(finding, Mesh((("dp", 2), ("tp", 3))))
    assert grid
    assert (grid.across, grid.columns) == ("tp", ("tp 0", "tp 1", "tp 2"))
    assert [name for name, _ in grid.rows] == ["dp 0", "dp 1"]
    wrong = [cell for _, row in grid.rows for cell in row if cell.kind == "diverge"]
    assert [(cell.error, cell.rank, cell.part) for cell in wrong] == [("✗ 5,000", 5, "[5:6]")]
    assert of_pieces(finding, Mesh((("dp", 4),))) is of_pieces(finding, None) is None
    assert Finding.from_json(finding.to_json()) == finding


def test_there_is_no_grid_where_no_element_is_wrong() -> None:
    """Of a result with a wrong dtype every piece was green, below the words "where it is wrong"."""
    assert of_pieces(of_ranks(wrong=2, ranks=2), Mesh((("dp", 2),))) is None


def test_the_piece_of_a_scalar_has_words() -> None:
    """A loss has no dims: its part as an index was `[]`."""
    pieces = tuple(Piece(rank=n, part=(), elements=1, wrong=n, ratio=4.0) for n in range(2))
    grid = of_pieces(replace(a_finding(tensor="loss"), pieces=pieces), Mesh((("dp", 2),)))
    assert grid
    assert [cell.part for _, row in grid.rows for cell in row] == ["the whole scalar"] * 2


def test_curves_are_those_of_the_last_campaign_that_ran_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, other = f"{0:012x}", f"{1:012x}"
    corpus = a_corpus(
        tmp_path,
        an_observation(0, "oracle", "oracle", side="oracle", losses=TRUTH),
        an_observation(0, losses=WRONG),
        an_observation(1, losses=RIGHT),
        an_observation(0, "oracle", "oracle", side="oracle", losses=TRUTH, campaign="second"),
        an_observation(0, losses=RIGHT, campaign="second"),
        an_observation(1, losses=RIGHT, campaign="second"),
    )
    expected = {case: (Curve("oracle", "oracle", TRUTH), Curve("torch", "torch_ddp", RIGHT))}
    assert curves(corpus, {case, "absent"}) == expected
    monkeypatch.setattr(index, "PART_BYTES", 1)
    for campaign in ("first", "second"):
        with resumed(corpus, campaign):
            assert any(part.index for part in index.parts(corpus.lines(campaign)))
    assert curves(corpus, {case}) == expected
    assert curves(corpus, {other}) == {other: (Curve("torch", "torch_ddp", RIGHT),)}
    assert curves(corpus, ()) == {}


def test_a_drawing_has_the_band_of_rounding_and_each_run_beside_it(tmp_path: Path) -> None:
    a_corpus(tmp_path, an_observation(0))
    report = with_fields(build(tmp_path), called={"xla_spmd": "XLA SPMD"})
    truth = Curve("oracle", "oracle", TRUTH)
    runs = (truth, Curve("xla", "xla_spmd", WRONG), Curve("torch", "torch_ddp", RIGHT))
    drawn = drawing(report, runs, chosen="xla_spmd")
    assert drawn
    assert [line.kind for line in drawn.lines] == ["torch", "chosen"], "that one is above the others"
    assert drawn.lines[1].words == "XLA SPMD: at most \N{INFINITY} x the rounding noise off"
    heights = [int(point.split()[1]) for point in drawn.lines[0].off.removeprefix("M").split("L")]
    assert min(heights) > drawn.threshold, "the right one stays in the band"
    wrong = [int(point.split()[1]) for point in drawn.lines[1].off.removeprefix("M").split("L")]
    assert wrong[0] > drawn.threshold > wrong[1] > wrong[2]
    assert drawn.steps == 2
    assert drawing(report, runs[1:]) is drawing(report, (truth,)) is None


def test_the_page_shows_both(tmp_path: Path) -> None:
    case = f"{0:012x}"
    a_corpus(
        tmp_path,
        an_observation(0, "oracle", "oracle", side="oracle", losses=TRUTH),
        an_observation(0, "xla_spmd", losses=WRONG),
        findings=(replace(of_ranks(wrong=1, ranks=2), case=case),),
    )
    page = ParsedPage(write(tmp_path, ["html"])[0].read_text())
    assert page.tags.count("figure") == 2, "one in the finding, one of the longest case"
    assert "dp 1, rank 1[1:2]" in page.text
    assert "case 0, data parallel, dp=2, float32, sgd" in page.text
