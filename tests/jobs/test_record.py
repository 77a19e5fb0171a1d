"""Recording one side on its own machine: the bundle, the reported failures, and the packages not needed."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from installed_packages import needs
from machines import Machine
from samples import a_case

from difftest import cli
from difftest.ground.errors import InfrastructureError
from difftest.jobs.screen import activity
from difftest.records.case_files import write_case
from workers.isolate import sandbox

ABSENT = ("ray", "torch_xla")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A stand-in for the processes that run cases."""
    there = Machine()
    monkeypatch.setattr(sandbox, "run", there.run)
    return there


def record(folder: Path, *arguments: str) -> Result:
    cases = [a_case(seed=seed) for seed in range(2)]
    for case in cases:
        write_case(folder / f"{case.id}.json", case)
    files = [str(folder / f"{case.id}.json") for case in cases]
    return CliRunner().invoke(
        cli.difftest,
        ["record", *files, "--backends", "torch_ddp", "--out", str(folder / "bundle"), *arguments],
    )


def output_of(done: Result) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def test_every_case_is_run_unchanged_and_on_one_device(tmp_path: Path, machine: Machine) -> None:
    output = output_of(record(tmp_path, "--json"))
    assert (output["cases"], output["runs"], output["trouble"]) == (2, 8, [])
    assert set(machine.requests.values()) == {1}
    assert len((tmp_path / "bundle" / "runs.jsonl").read_text().splitlines()) == 8


@pytest.mark.usefixtures("machine")
def test_every_line_has_the_backend_the_side_and_the_framework(tmp_path: Path) -> None:
    record(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "bundle" / "runs.jsonl").read_text().splitlines()]
    backends = {(line["backend"], line["side"], line["framework"]) for line in lines}
    assert backends == {("oracle", "oracle", ""), ("torch_ddp", "torch", "torch")}


def test_a_case_that_failed_for_infrastructure_is_reported_and_not_counted(
    tmp_path: Path, machine: Machine
) -> None:
    machine.spoiled = {"torch_ddp": 3}
    done = record(tmp_path, "--json")
    output = output_of(done)
    assert (output["cases"], output["trouble"]) == (1, [f"case {a_case(seed=0).id}: a node was lost"])
    assert output["comparisons"]["torch"]["lost"] == {"a node was lost": 1}
    assert isinstance(done.exception, InfrastructureError)
    assert str(done.exception).startswith(
        "side torch: 1 of 2 comparisons were made, --least-compared is 0.95"
    )
    (tmp_path / "enough").mkdir()
    machine.spoiled = {"torch_ddp": 3}
    assert record(tmp_path / "enough", "--least-compared", "0.5").exit_code == 0


def test_recording_no_case_at_all_is_an_infrastructure_error(tmp_path: Path, machine: Machine) -> None:
    machine.spoiled = {"torch_ddp": 100}
    done = record(tmp_path)
    assert isinstance(done.exception, InfrastructureError)
    assert str(done.exception) == f"no case could be recorded: case {a_case(seed=0).id}: a node was lost"


def test_more_ranks_than_this_machine_allows_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli.difftest,
        ["record", "--backends", "torch_ddp", "--max-world-size", "1000", "--out", str(tmp_path)],
    )
    assert done.exit_code == 2
    assert "--max-world-size is 1000; this machine allows 1 to" in done.output


@pytest.mark.slow
def test_record_needs_neither_ray_nor_torch_xla(tmp_path: Path) -> None:
    needs("torch", reason="needs torch: pip install 'difftest[cuda]'")
    for name in ABSENT:
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError({name!r})\n")
    words = [
        sys.executable,
        "-m",
        "difftest",
        "record",
        "--cases",
        "1",
        "--max-world-size",
        "1",
        "--backends",
        "torch_ddp",
        "--json",
    ]
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "bundle")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["cases"], json.loads(done.stdout)["trouble"]) == (1, [])


@pytest.mark.usefixtures("machine")
def test_a_log_of_a_recording_says_what_is_recorded_where_and_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()
    counts = activity.Working.case_done

    def case_done(working: activity.Working) -> None:
        counts(working)
        shown.append(working.line())

    monkeypatch.setattr(activity.Working, "case_done", case_done)
    lines = record(tmp_path).stderr.splitlines()
    assert lines[0] == f"2 cases on torch_ddp; results in {tmp_path / 'bundle'}"
    assert lines[1] == "record ..."
    assert lines[2] == "record: each case on one device ..."
    assert [re.sub(r"\d+ s", "T s", line) for line in shown] == [
        "record: T s, 1 of 2 cases, 2 runs done, 0 running",
        "record: T s, 2 of 2 cases, 4 runs done, 0 running",
    ]


@pytest.mark.usefixtures("machine")
def test_recording_says_that_it_works_and_counts_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = list[tuple[int, int]]()
    monkeypatch.setattr(
        activity.Working, "_count", lambda _, *, started=0, done=0: counted.append((started, done))
    )
    done = record(tmp_path)
    assert "record ..." in done.stderr
    assert tuple(map(sum, zip(*counted, strict=True))) == (8, 8)
