"""How good the comparison of runs is: correct pairs, planted faults, flipped bits. The figures are published.

`pytest -m nightly -s tests/runs/test_runs_many.py` prints them; docs/your-run.md has them.
"""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from pages import ROOT
from planted_run_faults import attribute, backward, gradient, output, parameter, planted
from recorded_scripts import SCRIPTS, launch
from torch import Tensor, nn
from torch.nn import functional

import difftest
from difftest.ground import made_environments
from difftest.runs import layout
from difftest.runs.comparison import WrongTensor
from workers.runs.recorder import Recorder

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

importlib.import_module("training_scripts.titan")  # once, and not in every rank

STEPS, EVERY = 50, 5

BASE = "one process"

TITAN: Mapping[str, tuple[str, int, dict[str, Any]]] = {
    BASE: ("titan", 1, {}),
    "noise": ("titan", 1, {"perturb": 1}),
    "fsdp2": ("titan", 2, {}),
    "fsdp2 with checkpointing": ("titan", 2, {"checkpoint": 1}),
    "tensor parallel": ("titan", 2, {"tp": 2}),
    "fsdp2 x tp": ("titan", 4, {"tp": 2}),
    "pipeline 1f1b": ("pipe", 2, {}),
    "pipeline gpipe of 8": ("pipe", 2, {"gpipe": 1, "micro": 8}),
    "fsdp2 of 4": ("titan", 4, {}),
}
"""Runs of torchtitan's form: the script, its ranks and its variables."""

NANO: Mapping[str, tuple[str, int, dict[str, Any]]] = {
    BASE: ("nano", 1, {}),
    "noise": ("nano", 1, {"perturb": 1}),
    "ddp of 2": ("nano", 2, {}),
    "ddp of 4": ("nano", 4, {}),
    "fsdp1": ("nano", 2, {"fsdp1": "flat"}),
    "float64": ("nano", 1, {"dtype": "float64"}),
    "autocast": ("nano", 1, {"autocast": 1}),
    "autocast noise": ("nano", 1, {"autocast": 1, "perturb": 1}),
    "autocast ddp": ("nano", 2, {"autocast": 1}),
    "bfloat16": ("nano", 1, {"dtype": "bfloat16"}),
    "bfloat16 noise": ("nano", 1, {"dtype": "bfloat16", "perturb": 1}),
    "bfloat16 ddp": ("nano", 2, {"dtype": "bfloat16"}),
}
"""Runs of nanoGPT's form, which accumulates 4 micro-batches on one process."""

PAIRS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "titan": (
        *((BASE, name, "noise") for name in TITAN if name not in (BASE, "noise")),
        ("fsdp2", "tensor parallel", "noise"),
        ("fsdp2", "pipeline 1f1b", "noise"),
        ("fsdp2 x tp", "fsdp2 of 4", "noise"),
        ("pipeline 1f1b", "pipeline gpipe of 8", "noise"),
    ),
    "nano": (
        *((BASE, name, "noise") for name in ("ddp of 2", "ddp of 4", "fsdp1", "float64")),
        ("ddp of 2", "ddp of 4", "noise"),
        ("ddp of 2", "fsdp1", "noise"),
        (BASE, "autocast", "autocast noise"),
        ("autocast", "autocast ddp", "autocast noise"),
        ("bfloat16", "bfloat16 ddp", "bfloat16 noise"),
    ),
}
"""Pairs that must agree, with what shows their rounding: two runs, and a repetition of the coarser one."""

OTHER = "newest"
"""The environment of another release, which `difftest environments make newest` makes."""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", ["titan", "nano"])
def test_correct_pairs_of_50_steps_are_equal(tmp_path: Path, seed: int, form: str) -> None:
    shared: dict[str, Any] = {"seed": seed, "steps": STEPS, "every": EVERY}
    runs, own = (TITAN, {"no_clip": 1}) if form == "titan" else (NANO, {})
    for name, (script, ranks, variables) in runs.items():
        launch(script, ranks, prepare=None, **shared, **own, **variables, out=tmp_path / name)
    equal, alarms = compared(tmp_path, f"{form} {seed}", PAIRS[form])
    assert alarms == []
    assert equal == 2 * len(PAIRS[form])


@pytest.mark.parametrize("seed", range(5))
def test_two_releases_of_torch_agree(tmp_path: Path, seed: int) -> None:
    other = made_environments.python(OTHER)
    if other is None:
        pytest.skip(f"the environment {OTHER} is not made")
    shared: dict[str, Any] = {"seed": seed, "steps": STEPS, "every": EVERY}
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    for python, of in ((Path(sys.executable), "this"), (other, "other")):
        for name, more in ((of, {}), (f"{of} noise", {"PERTURB": "1"})):
            given = {key.upper(): str(value) for key, value in shared.items()} | more
            done = subprocess.run(
                [python, SCRIPTS / "nano.py"],
                env=os.environ | paths | given | {"OUT": str(tmp_path / name)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    launch("nano", 2, prepare=None, **shared, out=tmp_path / "this ddp")
    equal, alarms = compared(
        tmp_path, f"releases {seed}", [("this", "other", "other noise"), ("this ddp", "other", "this noise")]
    )
    assert alarms == []
    assert equal == 4


def compared(
    folder: Path, what: str, pairs: Sequence[tuple[str, str, str]]
) -> tuple[int, list[tuple[object, ...]]]:
    """How many pairs are equal within rounding, with noise and with the bound, and the false alarms."""
    equal, alarms = 0, list[tuple[object, ...]]()
    for one, two, noise in pairs:
        for given in ([folder / noise], []):
            found = difftest.compare(folder / one, folder / two, noise=given)
            ended = f"to step {found.horizon}" if found.horizon is not None else "to the end"
            print(  # noqa: T201  the published figures
                f"{what}, {one} | {two}, noise {bool(given)}: {found.verdict} {ended}, "
                f"{found.steps} steps, {found.compared} tensors, farthest {found.greatest:.2g}"
            )
            equal += found.verdict == "equal within rounding"
            alarms += [(one, two, bool(given), found.first)] if found.first else []
    return equal, alarms


ATTENTION, MLP, NORM = "transformer.h.{}.attn", "transformer.h.{}.mlp", "transformer.h.{}.ln_1"

Fault = tuple[int, int | None, Callable[[nn.Module], None], str, tuple[str, ...]]
"""The step, the rank, what is planted, the first wrong module, and the kinds of tensor that may be first.

Of a wrong backward pass that is the gradient of what the module took, whose owner is another.
"""


def faults() -> list[Fault]:
    """30 faults in nanoGPT on two ranks: outputs, backward passes, gradients, parameters, arguments."""
    given: list[Fault] = []
    for layer in (0, 1):
        for rank in (0, 1, None):
            path = f"{ATTENTION.format(layer)}.c_proj"
            given.append((1 + layer, rank, output(path, lambda y: y * 1.01), path, ("output",)))
            path = f"{MLP.format(layer)}.gelu"
            given.append((2, rank, output(path, lambda y: y + 1e-3), path, ("output",)))
            path = f"{MLP.format(layer)}.c_fc"
            given.append((1, rank, backward(path, lambda g: g * 0.98), path, ("output gradient",)))
        path = NORM.format(layer)
        given.append((1, None, attribute(path, "eps", 1e-3), path, ("output",)))
        given.append((2, 1, attribute(path, "eps", 1e-3), path, ("output",)))
        path = f"{MLP.format(layer)}.c_proj"
        name = f"{path}.weight"
        given.append((2, 1, parameter(name, lambda p: p * 1.001), path, ("output", "gradient", "updated")))
        given.append((2, None, parameter(name, lambda p: p * 1.001), path, ("output",)))
        given.append((1, 0, gradient(name, lambda g: g * 1.05), path, ("gradient",)))
        given.append((2, None, gradient(name, lambda g: g * 0.5), path, ("gradient",)))
    return given


def named(place: WrongTensor, path: str) -> bool:
    """Whether a place names the module, or the parameter in it."""
    if place.kind == layout.OUTPUT_GRADIENT:
        return place.users == (path,)
    return place.owner == path or place.owner.startswith(f"{path}.")


def test_of_30_planted_faults_28_are_named_right(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"steps": 4}
    launch("nano", 2, **shared, out=tmp_path / "right")
    launch("nano", 2, **shared, out=tmp_path / "noise", perturb=1)
    right = {True: 0, False: 0}
    for number, (step, rank, plant, path, kinds) in enumerate(faults()):
        out = tmp_path / f"wrong{number}"
        launch("nano", 2, prepare=planted(step, rank, plant), **shared, out=out)
        for measured in (True, False):
            noise = [tmp_path / "noise"] if measured else []
            first = difftest.compare(tmp_path / "right", out, noise=noise).first
            good = (
                first is not None
                and first.step == step
                and first.kind in kinds
                and named(first, path)
                and (rank is None or not first.kind.startswith("output") or first.ranks == (rank,))
            )
            right[measured] += good
            if not good:
                print(f"fault {number}, noise {measured}: {step, rank, path, kinds} was named {first}")  # noqa: T201
        shutil.rmtree(out)
    print(f"named right of {len(faults())}: {right[True]} with noise, {right[False]} with the bound")  # noqa: T201
    assert len(faults()) == 30
    assert min(right.values()) >= 28


class Flipping:
    """Flips a bit of an element of a module's output in one of its calls."""

    def __init__(self, module: nn.Module) -> None:
        self.forward, self.at = module.forward, (-1, 0, 0)
        module.forward = self

    def __call__(self, x: Tensor) -> Tensor:  # noqa: D102
        result: Tensor = self.forward(x)
        call, bit, element = self.at
        if call == 0:
            flat = result.data.view(-1).view(torch.int32)  # shares no version counter
            flat[element % flat.numel()] ^= 1 << bit
        self.at = (call - 1, bit, element)
        return result


def test_1000_flipped_bits_are_noticed_and_1000_clean_steps_are_silent(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(17, 16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 17))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    flips = {name: Flipping(model.get_submodule(name)) for name in ("1", "2", "3")}
    generator = torch.Generator().manual_seed(1)

    def drawn(most: int) -> int:
        return int(torch.randint(most, (), generator=generator))

    def step(recorder: Recorder, number: int, flip: tuple[str, int] | None) -> Any:  # noqa: ANN401  the places
        tokens = torch.randint(17, (8, 5), generator=torch.Generator().manual_seed(number))

        def train() -> None:
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), ((tokens + 1) % 17).flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        for one in flips.values():
            one.at = (-1, 0, 0)
        if flip:
            flips[flip[0]].at = (flip[1], drawn(31), drawn(1 << 16))
        places = recorder.check_step(train)
        recorder.step()
        return places

    alarms, right = 0, 0
    with difftest.record(model, optimizer, out=tmp_path / "run") as recorder:
        for number in range(2000):
            flip = (str(1 + drawn(3)), drawn(2)) if number % 2 else None
            places = step(recorder, number, flip)
            if flip is None:
                alarms += bool(places)
                continue
            first = places[0] if places else None
            run = "first" if flip[1] == 0 else "second"
            right += bool(
                first
                and (first.kind, first.owner, first.ranks) == (layout.OUTPUT, flip[0], (0,))
                and f"the {run} of three runs" in first.share
            )
    print(f"flipped bits named right: {right} of 1000; alarms in clean steps: {alarms} of 1000")  # noqa: T201
    assert (right, alarms) == (1000, 0)
