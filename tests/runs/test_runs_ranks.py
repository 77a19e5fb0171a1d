"""Scripts in the style of public ones, recorded on several ranks: correct pairs agree, faults are named."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed_packages import needs
from pages import ROOT
from planted_run_faults import output, parameter, planted
from recorded_scripts import launch

import difftest
from difftest.runs.layout import Floats
from difftest.runs.read import read

pytestmark = pytest.mark.slow

importlib.import_module("training_scripts.titan")  # once, and not in every rank


def bit_equal(one: list[Floats], two: list[Floats]) -> bool:
    return all(np.array_equal(first, second) for first, second in zip(one, two, strict=True))


def test_ddp_of_any_size_agrees_with_one_process_and_recording_changes_no_bit(tmp_path: Path) -> None:
    launch("nano", 1, out=tmp_path / "one")
    launch("nano", 1, out=tmp_path / "noise", perturb=1)
    assert bit_equal(launch("nano", 2), launch("nano", 2, out=tmp_path / "two"))
    launch("nano", 4, out=tmp_path / "four")
    for name in ("two", "four"):
        for noise in ([], [tmp_path / "noise"]):
            found = difftest.compare(tmp_path / "one", tmp_path / name, noise=noise)
            assert (found.verdict, found.skipped) == ("equal within rounding", {})
    assert found.compared > 300
    assert read(tmp_path / "four").environment.settings["wrapper"] == "DistributedDataParallel"


def test_fsdp_over_tensor_parallelism_agrees_with_one_process(tmp_path: Path) -> None:
    launch("titan", 1, out=tmp_path / "one")
    launch("titan", 1, out=tmp_path / "noise", perturb=1)
    recorded = launch("titan", 4, tp=2, checkpoint=1, out=tmp_path / "four")
    assert bit_equal(launch("titan", 4, tp=2, checkpoint=1), recorded)
    found = difftest.compare(tmp_path / "one", tmp_path / "four", noise=[tmp_path / "noise"])
    assert found.verdict == "equal within rounding", found.first
    assert found.compared > 200
    assert any(one.name == "mesh" and "dp_shard=2, tp=2" in one.second for one in found.settings)


@pytest.mark.parametrize("names", ["flat", "names"])
def test_fsdp1_agrees_with_one_process_and_recording_changes_no_bit(tmp_path: Path, names: str) -> None:
    launch("nano", 1, accumulation=2, out=tmp_path / "one")
    recorded = launch("nano", 2, fsdp1=names, accumulation=2, out=tmp_path / "two")
    assert bit_equal(launch("nano", 2, fsdp1=names, accumulation=2), recorded)
    found = difftest.compare(tmp_path / "one", tmp_path / "two")
    assert (found.verdict, found.skipped) == ("equal within rounding", {}), found.first
    one, two = (read(tmp_path / name) for name in ("one", "two"))
    assert {*one.whole(1)} == {*two.whole(1)}
    assert {*one.environment.parameters} == {
        name for rank in two.ranks for name in rank.environment.parameters
    }


def test_a_fault_in_fsdp1_is_named_by_its_parameter(tmp_path: Path) -> None:
    launch("nano", 2, fsdp1="names", accumulation=2, out=tmp_path / "right")
    path = "transformer.h.1.mlp.c_proj"
    wrong = planted(1, None, output(path, lambda y: y * 1.01))
    launch("nano", 2, fsdp1="names", accumulation=2, out=tmp_path / "wrong", prepare=wrong)
    found = difftest.compare(tmp_path / "right", tmp_path / "wrong").first
    assert found
    assert (found.step, found.kind, found.owner) == (1, "output", path)


@pytest.mark.parametrize(
    "schedule",
    [{}, {"gpipe": 1}, {"stages": 2, "layers": 4}],
    ids=["1f1b", "gpipe", "interleaved"],
)
def test_a_pipeline_agrees_with_one_process_and_recording_changes_no_bit(
    tmp_path: Path, schedule: dict[str, Any]
) -> None:
    layers = schedule.get("layers", 2)
    launch("titan", 1, no_clip=1, layers=layers, out=tmp_path / "one")
    recorded = launch("pipe", 2, **schedule, out=tmp_path / "two")
    assert bit_equal(launch("pipe", 2, **schedule), recorded)
    found = difftest.compare(tmp_path / "one", tmp_path / "two")
    assert (found.verdict, found.skipped) == ("equal within rounding", {}), found.first
    one, two = (read(tmp_path / name).whole(1) for name in ("one", "two"))
    assert {*one} == {*two}
    assert "micro-batches of a step" in {one.name for one in found.settings}


def test_a_fault_in_a_stage_is_named_by_its_module(tmp_path: Path) -> None:
    launch("pipe", 2, out=tmp_path / "right")
    path = "layers.1.feed_forward"
    wrong = planted(1, 1, output(path, lambda y: y * 1.01))
    launch("pipe", 2, out=tmp_path / "wrong", prepare=wrong)
    for first in ("right", "one"):
        if first == "one":
            launch("titan", 1, no_clip=1, out=tmp_path / "one")
        found = difftest.compare(tmp_path / first, tmp_path / "wrong").first
        assert found
        assert (found.step, found.kind, found.owner) == (1, "output", path)


def test_a_fault_on_one_rank_is_named_with_its_rank_and_step(tmp_path: Path) -> None:
    launch("nano", 2, out=tmp_path / "right")
    path = "transformer.h.1.attn.c_proj"
    wrong = planted(1, 1, output(path, lambda y: y * 1.01))
    launch("nano", 2, out=tmp_path / "wrong", prepare=wrong)
    found = difftest.compare(tmp_path / "right", tmp_path / "wrong").first
    assert found
    assert (found.step, found.kind, found.owner, found.ranks) == (1, "output", path, (1,))
    stale = planted(2, 1, parameter("transformer.h.0.mlp.c_fc.weight", lambda p: p * 1.001))
    launch("nano", 2, out=tmp_path / "stale", prepare=stale)
    found = difftest.compare(tmp_path / "right", tmp_path / "stale").first
    assert found
    assert (found.step, found.ranks) == (2, (1,))
    assert found.owner.startswith("transformer.h.0.mlp.c_fc")


ON_XLA = """
import os, sys
from pathlib import Path
import numpy
from training_scripts import spmd
folder = Path(sys.argv[1])
for name, out in (("plain", ""), ("recorded", str(folder / "spmd"))):
    os.environ["OUT"] = out
    numpy.savez(folder / f"{name}.npz", *[one.numpy() for one in spmd.main()])
"""
"""Both trainings in one process, which imports torch_xla once."""


@pytest.mark.xla
def test_spmd_on_xla_agrees_with_one_process_and_recording_changes_no_bit(tmp_path: Path) -> None:
    needs("torch_xla")
    given = {
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": "4",
        "XLA_THREAD_POOL_SIZE": "16",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
        "TP": "2",
        "STEPS": "2",
        "LAYERS": "1",
    }
    command = [sys.executable, "-c", ON_XLA, str(tmp_path)]
    done = subprocess.run(
        command, env=os.environ | given, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(tmp_path / "plain.npz") as plain, np.load(tmp_path / "recorded.npz") as recorded:
        assert all(np.array_equal(plain[name], recorded[name]) for name in plain)
    launch("titan", 1, out=tmp_path / "one", steps=2, layers=1)
    found = difftest.compare(tmp_path / "one", tmp_path / "spmd")
    assert (found.verdict, found.skipped) == ("equal within rounding", {})
    assert found.compared > 100
