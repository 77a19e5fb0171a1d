"""Bundles recorded on separate machines compare as one campaign would; damaged bundles are refused."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_bundles import CASES, FRAMEWORKS, SIDES, SPMD, answer, recorded
from samples import oracle

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.commands import compare
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.judge.outcome import Failure, Outcome, Trace
from difftest.records.bundle import BundleWriter, Joined
from difftest.records.corpus import Corpus


def changed_lines(root: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The bundle, after `change` has changed each of its lines in place."""
    lines = [msgspec.json.decode(line) for line in (root / "runs.jsonl").read_bytes().splitlines()]
    for line in lines:
        change(line)
    (root / "runs.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return root


def compared(root: Path, joined: Joined) -> Corpus:
    corpus = Corpus(root)
    corpus.prepare()
    for _ in run(
        Campaign(name="one", backends=joined.backends, execute=joined.execute, corpus=corpus), joined.cases
    ):
        pass
    return corpus


def findings(root: Path, joined: Joined) -> dict[str, tuple[str, tuple[int, int], int]]:
    return {
        finding.fingerprint: (finding.blame, finding.stable, finding.hits)
        for finding in compared(root, joined).findings()
    }


def layers(corpus: Corpus) -> dict[str, str]:
    """The layer in the evidence of each backend's finding; a dash where there is none."""
    return {finding.divergence.backend: finding.evidence.get("layer", "-") for finding in corpus.findings()}


class Together:
    """The same backends in one campaign."""

    def __init__(self, *backends: str, wrong: tuple[str, ...] = SPMD) -> None:
        sides = {name: {"SIDE": SIDES[name], "FRAMEWORK": FRAMEWORKS[name]} for name in backends}
        self.backends = {
            name: SimpleNamespace(unsupported=lambda _case: None, **attributes)
            for name, attributes in sides.items()
        }
        self.cases, self.wrong = list(enumerate(CASES)), wrong

    def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        """Returns the same outcome however often a run is repeated."""
        return answer(case, backend, self.wrong)


@pytest.mark.long
def test_two_bundles_give_the_findings_of_a_joint_run(tmp_path: Path) -> None:
    joined = Joined([recorded(tmp_path / "torch", "ddp"), recorded(tmp_path / "xla", "spmd")], "oracle")
    apart = findings(tmp_path / "apart", joined)
    assert apart == findings(tmp_path / "together", Together("ddp", "spmd"))  # type: ignore[arg-type]
    assert [blame for blame, _, _ in apart.values()] == ["xla sharding fault"]
    assert [hits for _, _, hits in apart.values()] == [3]


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (("spmd",), {"spmd": "torch_xla: torchax is right"}),
        (
            ("spmd", "second"),
            {
                "spmd": "xla itself, or what it is given: torchax is wrong alike",
                "second": "xla itself, or what it is given: torch_xla is wrong alike",
            },
        ),
    ],
)
def test_bundles_give_the_same_layer_at_fault_as_a_joint_run(
    tmp_path: Path, wrong: tuple[str, ...], expected: dict[str, str]
) -> None:
    bundles = [str(recorded(tmp_path / name, name, wrong=wrong)) for name in ("spmd", "second")]
    done = CliRunner().invoke(
        compare.command,
        [
            *bundles,
            "--out",
            str(tmp_path / "out"),
            "--fail-on",
            "never",
            "--one-side",
            "--least-compared",
            "0",
        ],
        standalone_mode=False,
    )
    assert not done.exception, done.output
    assert layers(Corpus(tmp_path / "out" / "corpus")) == expected
    together = Together("spmd", "second", wrong=wrong)
    assert layers(compared(tmp_path / "together", together)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("older", ["spmd", "second"])
def test_a_bundle_without_frameworks_is_read_and_gives_no_layer(tmp_path: Path, older: str) -> None:
    """An unknown framework may be the same one: that the other is right has no consequence then."""
    roots = [recorded(tmp_path / name, name) for name in ("spmd", "second")]
    changed_lines(tmp_path / older, lambda line: line.pop("framework"))
    assert layers(compared(tmp_path / "out", Joined(roots, "oracle"))) == {"spmd": "-"}


@pytest.mark.parametrize("name", ["torch XLA", "../torch", "t" * 61])
def test_a_framework_must_be_a_valid_name(tmp_path: Path, name: str) -> None:
    root = changed_lines(
        recorded(tmp_path / "xla", "spmd", repeats=1), lambda line: line.update(framework=name)
    )
    with pytest.raises(UsageError, match=r"framework '.*allowed: names of a-z"):
        Joined([root], "oracle")


@pytest.mark.long
def test_the_same_bundles_compared_again_count_nothing_twice(tmp_path: Path) -> None:
    bundles = [str(recorded(tmp_path / "torch", "ddp")), str(recorded(tmp_path / "xla", "spmd"))]
    counts = []
    for _ in range(2):
        done = CliRunner().invoke(
            compare.command,
            [*bundles, "--out", str(tmp_path / "out"), "--least-compared", "0"],
            standalone_mode=False,
        )
        assert (done.exception, done.return_value) == (None, 1), "the same command has the same status"
        corpus = Corpus(tmp_path / "out" / "corpus")
        counts.append(
            ([run.case for run in corpus.observations()], [finding.hits for finding in corpus.findings()])
        )
    assert counts[0] == counts[1]
    assert counts[0][1] == [3]


@pytest.mark.long
def test_bundles_of_one_name_in_two_folders_are_two_campaigns_whatever_their_length(tmp_path: Path) -> None:
    names = [tmp_path / side / ("n" * 130) for side in ("one", "other")]
    for name in names:
        bundle = str(recorded(name, "spmd"))
        done = CliRunner().invoke(
            compare.command,
            [bundle, "--out", str(tmp_path / "out"), "--fail-on", "never", "--one-side"],
            standalone_mode=False,
        )
        assert "spmd: 0 of 3 comparisons agreed" in str(done.exception)
    corpus = Corpus(tmp_path / "out" / "corpus")
    assert len({run.campaign for run in corpus.observations()}) == 2
    assert [finding.hits for finding in corpus.findings()] == [6]


def test_cases_that_share_an_index_stay_apart(tmp_path: Path) -> None:
    recorder = BundleWriter(tmp_path, [("spmd", "xla", "torch_xla")])
    for case in CASES:
        recorder.keep(0, case, ("oracle", "oracle", ""), {}, oracle(case))
    assert [index for index, _ in Joined([tmp_path], "oracle").cases] == [0, 1, 2]


def test_reports_at_an_address_are_announced_and_titled_by_it(tmp_path: Path) -> None:
    bundle, address = str(recorded(tmp_path / "xla", "spmd", wrong=())), f"file://{tmp_path}/there/joined"
    done = CliRunner().invoke(
        compare.command, [bundle, "--out", address, "--one-side"], standalone_mode=False
    )
    assert not done.exception, done.output
    assert f"{address}/report.html" in done.stdout
    assert "<h1>difftest: joined</h1>" in (tmp_path / "there" / "joined" / "report.html").read_text()


def test_a_run_is_used_once_and_never_as_its_own_repetition(tmp_path: Path) -> None:
    joined = Joined([recorded(tmp_path / "xla", "spmd", repeats=1)], "oracle")
    assert isinstance(joined.execute(CASES[0], "spmd", {}), Trace)
    with pytest.raises(InfrastructureError, match=r"was not recorded on spmd \(again\)"):
        joined.execute(CASES[0], "spmd", {})
    assert isinstance(joined.execute(CASES[0], "oracle", {}), Trace)
    assert isinstance(joined.execute(CASES[0], "oracle", {}), Trace)


def test_runs_for_evidence_serve_every_finding(tmp_path: Path) -> None:
    """Otherwise the other side's finding on the same case used up the run, and this one had no blame."""
    joined, single = Joined([recorded(tmp_path / "xla", "spmd", repeats=1)], "oracle"), CASES[0].unsharded()
    first, second = (joined.execute(single, "spmd", {}) for _ in range(2))
    assert isinstance(first, Trace)
    assert isinstance(second, Trace)
    assert first.steps[0].keys() == second.steps[0].keys()


def test_a_folder_that_is_not_empty_is_refused_for_recording(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"is not empty; a bundle is recorded into a folder of its own"):
        BundleWriter(tmp_path)


def test_a_backend_in_two_bundles_is_refused(tmp_path: Path) -> None:
    roots = [recorded(tmp_path / name, "spmd") for name in ("one", "two")]
    with pytest.raises(UsageError, match=r"on spmd is in .*one and in .*two"):
        Joined(roots, "oracle")


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no bundle; expected runs.jsonl"):
        Joined([tmp_path], "oracle")


def test_a_changed_file_is_detected_by_its_digest(tmp_path: Path) -> None:
    root = recorded(tmp_path / "xla", "spmd")
    for file in (root / "runs").glob("*.npz"):
        file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(UsageError, match=r"is missing or was changed"):
        Joined([root], "oracle").execute(CASES[0], "spmd", {})


@pytest.mark.parametrize("case", ["../../etc/passwd", "/etc/passwd", "x" * 12])
def test_a_line_cannot_name_a_file_elsewhere(tmp_path: Path, case: str) -> None:
    root = recorded(tmp_path / "xla", "spmd")
    line = msgspec.json.decode((root / "runs.jsonl").read_bytes().split(b"\n")[0]) | {"case": case}
    (root / "runs.jsonl").write_bytes(msgspec.json.encode(line) + b"\n")
    with pytest.raises(UsageError, match=r"allowed: schema to 1, a case's id"):
        Joined([root], "oracle")


def test_a_case_under_another_name_is_refused(tmp_path: Path) -> None:
    root = recorded(tmp_path / "xla", "spmd")
    shutil.copy(root / "cases" / f"{CASES[0].id}.json", root / "cases" / f"{CASES[1].id}.json")
    with pytest.raises(UsageError, match=r"a bundle's cases are named by their content"):
        Joined([root], "oracle")


def test_an_interrupted_recording_is_a_bundle_of_its_finished_runs(tmp_path: Path) -> None:
    root = recorded(tmp_path / "xla", "spmd")
    lines = (root / "runs.jsonl").read_bytes()
    (root / "runs.jsonl").write_bytes(lines[: len(lines) - 30])
    assert len(list(Joined([root], "oracle").cases)) == len(CASES)


@pytest.mark.long
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_a_damaged_bundle_is_refused_or_read_as_valid_outcomes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = recorded(tmp_path_factory.mktemp("bundle") / "xla", "spmd", repeats=1)
    file = data.draw(st.sampled_from(sorted(root.rglob("*.json*"))))
    text = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place : place + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=20))
    file.write_bytes(bytes(text))
    try:
        joined = Joined([root], "oracle")
        outcomes = [joined.execute(case, "spmd", {}) for _, case in joined.cases]
    except (UsageError, InfrastructureError) as error:
        refusal = str(error)
        assert refusal
    else:
        assert all(isinstance(outcome, Trace | Failure) for outcome in outcomes)
