"""Lines of campaigns and bundles of recordings that compare too little: what they end in, and their words."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from sample_bundles import CASES, SIDES, answer, recorded
from sample_findings import a_corpus, a_finding, a_measurement, an_observation

from difftest import cli
from difftest.findings.jumps import jumps
from difftest.ground.errors import InfrastructureError
from difftest.jobs.campaign.night_before import nights_before
from difftest.judge.canary import NOTICED
from difftest.judge.capability import Lack
from difftest.records.bundle import BundleWriter
from difftest.records.chance import is_more_than
from difftest.records.columns import Columns
from difftest.records.comparisons import Comparisons
from difftest.records.conclusion import concluded
from difftest.records.corpus import Corpus
from difftest.records.observation import Ending, Observation
from difftest.records.support import is_usual, support
from reports.write import write

LOST: dict[str, Any] = {"verdict": "lost", "outcome": Ending(status="lost"), "reason": "a node was lost"}
CANNOT: dict[str, Any] = {
    "verdict": "unsupported",
    "outcome": Ending(status="unsupported"),
    "reason": "it cannot",
}


def lines(number: int, backend: str, *, first: int = 0, **changes: object) -> list[Observation]:
    return [replace(an_observation(index, backend), **changes) for index in range(first, first + number)]


def healthy() -> list[Observation]:
    return [*lines(30, "torch_ddp"), *lines(30, "xla_spmd")]


VACUOUS = {
    "torch_fsdp 0 of 4": (
        lines(4, "torch_fsdp", **LOST) + lines(96, "torch_ddp"),
        "torch_fsdp: 0 of 4 comparisons",
    ),
    "xla_tp 0 of 5": (
        lines(5, "xla_tp", **LOST) + lines(100, "xla_spmd"),
        "xla_tp: 0 of 5 comparisons agreed",
    ),
    "xla_ddp 20 of 20 inconclusive": (
        lines(20, "xla_ddp", verdict="inconclusive", reason="noise") + lines(100, "xla_spmd"),
        "xla_ddp: 0 of 20 comparisons agreed (20 inconclusive (noise))",
    ),
    "xla_ddp 20 of 22 inconclusive": (
        lines(20, "xla_ddp", verdict="inconclusive", reason="noise")
        + lines(2, "xla_ddp", first=20)
        + lines(100, "xla_spmd"),
        "backend xla_ddp: 20 of 22 comparisons are inconclusive",
    ),
    "999 of 1000 unsupported": (
        lines(999, "xla_other", **CANNOT) + lines(1, "xla_other", first=999),
        "xla_other on data_parallel: 999 of 1000 cases are not supported; 999 unsupported (it cannot)",
    ),
    "999 of 1000 unsupported of a recorded backend": (
        lines(999, "xla_spmd", **CANNOT) + lines(1, "xla_spmd", first=999),
        "999 of 1000 cases are not supported, usually 0%",
    ),
    "damage that the judge does not notice": (
        lines(30, "xla_spmd", canary="not noticed: a crash"),
        "the judge itself is in doubt: its canary was not noticed: a crash (in 30 runs of xla_spmd)",
    ),
    "no canary": (
        lines(30, "xla_spmd", measurements=(a_measurement(1.0),)),
        "the judge itself is in doubt: there was no canary in 30 runs that agree",
    ),
    "errors of nothing": (
        lines(30, "xla_spmd", measurements=(a_measurement(0.004),), canary=NOTICED),
        "the judge itself is in doubt: the greatest errors of 30 agreeing runs have a median of 0.004",
    ),
    "errors just below the threshold": (
        lines(30, "xla_spmd", measurements=(a_measurement(9.0),), canary=NOTICED),
        "have a median of 9 times the rounding noise, usually 0.1 to 5",
    ),
}


@pytest.mark.parametrize("name", VACUOUS)
def test_every_report_of_vacuous_lines_says_why(tmp_path: Path, name: str) -> None:
    shown, words = VACUOUS[name]
    others = [one for one in healthy() if one.backend not in {each.backend for each in shown}]
    a_corpus(tmp_path, *shown, *others)
    summary, markdown, page = (file.read_text() for file in write(tmp_path, ("summary", "markdown", "html")))
    assert any(words in reason for reason in json.loads(summary)["incomplete"]), json.loads(summary)[
        "incomplete"
    ]
    assert words.partition("(")[0] in markdown.replace("\\", "")
    assert 'role="alert"' in page
    assert "No findings need you" not in markdown + page


def test_healthy_lines_have_no_words(tmp_path: Path) -> None:
    measured: dict[str, Any] = {"measurements": (a_measurement(1.0),), "canary": NOTICED}
    a_corpus(tmp_path, *(replace(one, **measured) for one in healthy()))
    assert json.loads(write(tmp_path, ["summary"])[0].read_text())["incomplete"] == []


@pytest.mark.parametrize(
    ("number", "total", "limit", "expected"),
    [
        (1, 4, 0.05, False),
        (3, 4, 0.05, True),
        (4, 5, 0.2, False),
        (5, 5, 0.2, True),
        (1, 9, 0.0, True),
        (9, 9, 1.0, False),
    ],
)
def test_a_share_of_few_counts_only_where_chance_is_no_explanation(
    number: int, total: int, limit: float, *, expected: bool
) -> None:
    assert is_more_than(number, total, limit) == expected


def test_a_refusal_is_usual_where_the_table_says_so_and_no_other() -> None:
    no_rule = Lack(
        operator="cummax",
        overload="cummax.default",
        reason="OP does not have a sharding strategy registered.",
    )
    assert is_usual("torch_dtensor@2.8", no_rule.reason, (no_rule,))
    for overload in ("mm.default", "unknown.default", ""):
        assert not is_usual("torch_dtensor", no_rule.reason, (replace(no_rule, overload=overload),))
    assert not is_usual("torch_dtensor", "the package is too old", ())
    for known in support().refusals:
        assert is_usual(
            known.backend,
            known.reason,
            () if not known.operator else (Lack(operator=known.operator, reason=known.reason),),
        )


def test_one_refusal_of_an_unknown_operator_makes_no_night_red() -> None:
    lack = Lack(operator="new_op", reason="not implemented for a reason of its own")
    comparisons = Comparisons()
    refused = replace(
        an_observation(0, "torch_dtensor", "unsupported"), outcome=Ending(status="capability"), lacks=(lack,)
    )
    comparisons.add(Columns.of([*lines(40, "torch_dtensor"), *lines(40, "xla_spmd"), refused]))
    assert comparisons.sides["torch"].lacking.total() == 1
    assert concluded(comparisons).incomplete == ()


def test_a_known_fault_that_jumps_against_earlier_nights_is_named(tmp_path: Path) -> None:
    known = a_finding()
    shown: dict[str, Any] = {
        "verdict": "diverge",
        "fingerprints": (known.fingerprint,),
        "path": "tensor_parallel",
    }

    def night(day: str, hits: int) -> list[Observation]:
        return [
            *lines(hits, "xla_spmd", campaign=f"seed{day}-aaaaaaaa", **shown),
            *lines(40 - hits, "xla_spmd", first=hits, campaign=f"seed{day}-aaaaaaaa", path="tensor_parallel"),
        ]

    corpus = a_corpus(tmp_path, *night("20261120", 2), *night("20261121", 24))
    now = Comparisons()
    now.add(Columns.of(night("20261121", 24)))
    before = nights_before(corpus, "seed20261121-aaaaaaaa")
    assert before.sides["xla"].requested == 40
    issues = {known.fingerprint: "issue 1"}
    (message,) = jumps(now, before, issues, {})
    assert message.startswith(
        "xla_spmd: 24 of 40 comparisons are the known fault issue 1, usually 5% in earlier nights"
    )
    assert jumps(now, Comparisons(), issues, {}) == [], "less than half, and no night says more"
    assert jumps(now, before, issues, issues) == [], "it ends every run"
    assert jumps(before, now, issues, {}) == []


def joined(*words: object) -> Result:
    return CliRunner().invoke(cli.difftest, ["compare", *map(str, words)], standalone_mode=False)


def right(root: Path, name: str) -> Path:
    return recorded(root / name, name, repeats=1, wrong=())


def one_case(root: Path) -> Path:
    recorder = BundleWriter(root / "spmd", [("spmd", "xla", "torch_xla")])
    for name in ("oracle", "spmd"):
        recorder.keep(0, CASES[0], (name, SIDES[name], ""), {}, answer(CASES[0], name, ()))
    return root / "spmd"


def killed(root: Path, status: str = "lost") -> Path:
    """A bundle of which every run of XLA was killed or refused."""
    recorder = BundleWriter(root / "spmd", [("spmd", "xla", "torch_xla")])
    for index, case in enumerate(CASES):
        recorder.keep(index, case, ("oracle", "oracle", ""), {}, answer(case, "oracle"))
        recorder.miss(index, case, {"spmd": (status, f"rank 0 of case {case.id} was killed")})
    return root / "spmd"


def cut_off(root: Path) -> Path:
    """A recording that ended before its first run did."""
    bundle = killed(root)
    for name in ("missing.jsonl", "runs.jsonl"):
        (bundle / name).write_text("")
    return bundle


COMPARED: dict[str, tuple[Callable[[Path], list[Path]], str]] = {
    "torch alone": (lambda root: [right(root, "ddp")], "side xla: nothing was compared, no case was run"),
    "xla alone": (lambda root: [right(root, "spmd")], "side torch: nothing was compared"),
    "two backends of one side": (
        lambda root: [right(root, "spmd"), right(root, "second")],
        "side torch: nothing was compared",
    ),
    "one case of three": (
        lambda root: [right(root, "ddp"), one_case(root)],
        "side xla: 1 of 3 comparisons were made",
    ),
    "all runs of xla were killed": (
        lambda root: [right(root, "ddp"), killed(root)],
        "spmd: 3 lost (rank # of case ... was killed)",
    ),
    "all runs of xla were refused": (
        lambda root: [right(root, "ddp"), killed(root, "refused")],
        "spmd: 3 refused (rank # of case ... was killed)",
    ),
    "the recording of xla was cut off": (
        lambda root: [right(root, "ddp"), cut_off(root)],
        "spmd: 3 lost (case ... was not recorded on spmd (again))",
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_bundles_that_lack_a_side_or_its_runs_end_in_status_3(tmp_path: Path, name: str) -> None:
    bundles, words = COMPARED[name]
    done = joined(*bundles(tmp_path), "--out", tmp_path / "out")
    assert isinstance(done.exception, InfrastructureError), done.output
    assert words in str(done.exception)
    assert "  xla:   " in done.stdout
    assert done.stdout.startswith("Too little was compared.")
    assert words.partition("(")[0] in (tmp_path / "out" / "summary.md").read_text().replace("\\", "")


def test_one_side_is_enough_for_whoever_says_so_and_the_headline_names_it(tmp_path: Path) -> None:
    done = joined(right(tmp_path, "ddp"), "--out", tmp_path / "out", "--one-side")
    assert (done.exception, done.return_value) == (None, 0), done.output
    assert done.stdout.startswith("Unusual here: one side is enough (--one-side).")
    assert "one side is enough" in (tmp_path / "out" / "report.html").read_text()


def test_both_sides_recorded_are_green_and_what_a_backend_cannot_express_is_not_lost(tmp_path: Path) -> None:
    recorder = BundleWriter(tmp_path / "spmd", [("spmd", "xla", "torch_xla")])
    for name in ("oracle", "spmd"):
        for index, case in enumerate(CASES[:2]):
            recorder.keep(index, case, (name, SIDES[name], ""), {}, answer(case, name, ()))
    recorder.miss(2, CASES[2], {"spmd": ("unsupported", "it cannot")})
    done = joined(right(tmp_path, "ddp"), tmp_path / "spmd", "--out", tmp_path / "out")
    assert (done.exception, done.return_value) == (None, 0), done.output
    assert "  xla:   2 of 2 comparisons completed; 1 more not supported" in done.stdout


@pytest.mark.parametrize(
    "line", ['{"index":0}', '{"index":0,"case":"..","backend":"a","status":"lost","reason":""}']
)
def test_a_damaged_line_of_missing_runs_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    bundle = right(tmp_path, "ddp")
    (bundle / "missing.jsonl").write_text(line + "\n")
    done = joined(bundle, "--out", tmp_path / "out")
    assert "missing.jsonl, line 1" in str(done.exception)
    shutil.copytree(bundle, tmp_path / "other")
    (tmp_path / "other" / "missing.jsonl").unlink()
    (tmp_path / "other" / "requested.json").write_text('[["../x","torch",""]]')
    done = joined(tmp_path / "other", "--out", tmp_path / "out")
    assert "requested.json" in str(done.exception)
    assert Corpus(tmp_path / "out" / "corpus").fingerprints() == ()
