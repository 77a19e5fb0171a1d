"""`difftest compare` of recorded runs: status, JSON, page; and the files that it reads."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import command
from sample_runs import noisy, training, write

from difftest.runs import layout
from difftest.runs.read import read

RUN = training()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "gpu", RUN), write(tmp_path / "tpu", noisy(RUN, 1e-7))


def wrong(folder: Path) -> Path:
    steps = noisy(RUN, 1e-7)
    steps[1][layout.OUTPUT, "block.mlp"] *= 3
    return write(folder, steps)


def test_runs_that_agree_end_in_status_0_and_a_sentence(pair: tuple[Path, Path]) -> None:
    done = command("compare", *pair)
    assert done.status == 0
    assert "are equal within rounding in all 3 steps" in done.output


def test_runs_that_differ_end_in_status_1_with_the_place(pair: tuple[Path, Path], tmp_path: Path) -> None:
    done = command("compare", pair[0], wrong(tmp_path / "wrong"))
    assert done.status == 1
    assert "step 1, forward: the output of block.mlp; off by" in done.output
    assert "3 times as large" in done.output


def test_json_is_one_object_with_the_status(pair: tuple[Path, Path], tmp_path: Path) -> None:
    done = command("compare", pair[0], wrong(tmp_path / "wrong"), "--json")
    found = json.loads(done.output)
    assert (found["status"], found["verdict"], found["first"]["owner"]) == (1, "differ", "block.mlp")
    assert [point["step"] for point in found["points"]] == [0, 1, 2]


def test_json_of_what_is_not_finite_has_null(pair: tuple[Path, Path], tmp_path: Path) -> None:
    steps = noisy(RUN, 1e-7)
    steps[1][layout.OUTPUT, "block.mlp"][0, 0] = np.nan
    done = command("compare", pair[0], write(tmp_path / "nan", steps), "--json")
    assert "Infinity" not in done.output
    assert json.loads(done.output)["first"]["difference"] is None


def test_noise_and_names_are_taken(pair: tuple[Path, Path], tmp_path: Path) -> None:
    noise = write(tmp_path / "noise", noisy(RUN), perturbed=1.0)
    done = command("compare", *pair, "--noise", noise, "--name", "block=block")
    assert done.status == 0
    assert "The noise was measured" in done.output
    assert command("compare", *pair, "--name", "block").status == 2


def test_the_page_shows_both_curves_inside_the_band(pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "page"
    assert command("compare", *pair, "--out", out).status == 0
    page = (out / "compare.html").read_text()
    assert page.count('class="line') == 2
    assert 'class="band"' in page
    assert "are equal within rounding" in page
    assert command("compare", pair[0], wrong(tmp_path / "wrong"), "--out", out).status == 1
    page = (out / "compare.html").read_text()
    assert 'class="at wrong" d="M500 0' in page
    assert "The runs" not in page


def test_what_is_no_pair_of_runs_is_wrong_usage(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given, says in (
        ((*pair, pair[0]), "two are compared"),
        ((pair[0],), "two are compared"),
        ((pair[0], tmp_path / "empty"), "holds no recorded run"),
        ((tmp_path / "empty", tmp_path / "empty"), "bundles need --out"),
    ):
        done = command("compare", *given)
        assert done.status == 2, done.output
        assert says in done.output


def test_a_missing_rank_is_reported(pair: tuple[Path, Path], tmp_path: Path) -> None:
    second = write(tmp_path / "four", RUN, ranks=4)
    (second / "rank-00002.jsonl").unlink()
    done = command("compare", pair[0], second)
    assert done.status == 2
    assert "has ranks 0, 1, 3 of a run of 4" in done.output


def test_what_a_killed_process_left_is_read_up_to_its_last_step(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    shutil.copytree(pair[1], killed)
    lines = (killed / "rank-00000.jsonl").read_bytes().splitlines(keepends=True)
    (killed / "rank-00000.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    with (killed / "rank-00000.f64").open("ab") as rows:
        rows.write(b"half a row")
    assert read(killed).steps == (0, 1)
    assert command("compare", pair[0], killed).status == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "cannot be read"),
        (b'{"type":"step","step":9,"row":9000,"tensors":[0]}', "does not have"),
        (b'{"type":"step","step":9,"row":0,"tensors":[777]}', "does not have"),
        (b'{"type":"tensor","id":9,"kind":"x","owner":"x","shape":[2],"dtype":"float32"}', "of the kind 'x'"),
        (b'{"type":"tensor","id":9,"kind":"output","owner":"x","shape":[],"dtype":""}', "without shape"),
    ],
)
def test_a_damaged_file_is_reported(pair: tuple[Path, Path], line: bytes, says: str) -> None:
    with (pair[1] / "rank-00000.jsonl").open("ab") as file:
        file.write(line + b"\n")
    done = command("compare", *pair)
    assert done.status == 2
    assert says in done.output


def test_a_file_of_another_version_is_refused(pair: tuple[Path, Path]) -> None:
    file = pair[1] / "rank-00000.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2', 1))
    assert "reads version 1" in command("compare", *pair).output


def test_a_folder_is_recorded_into_once(pair: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="has a run of rank 0 already"):
        write(pair[0], RUN)


@pytest.mark.slow
def test_the_recorder_needs_no_heavy_package() -> None:
    heavy = ("ray", "hypothesis", "pandas", "click", "pyarrow", "jinja2", "psutil", "tqdm")
    program = f"""
import sys
sys.modules.update(dict.fromkeys({heavy}))  # importing one of them fails
import difftest
difftest.record, difftest.compare
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
