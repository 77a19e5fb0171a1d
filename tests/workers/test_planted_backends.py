"""Planted faults on backends that the user names, and on those for which a case is drawn that shows them."""

import inspect

import pytest

from difftest.cases.twins import twin
from difftest.jobs.proof.planted_campaigns import chosen_defects
from difftest.jobs.proof.selftest_cases import DrawnCases
from workers.backends import load, profile
from workers.faults import PlantedFault, all_faults

pytestmark = pytest.mark.long  # planted faults import torch

DRAWN = DrawnCases(seed=0, paths=(), max_world_size=4)
MOST_CASES = 100
"""As many of the cases that a fault reaches as `difftest selftest --planted` tries by itself."""

SELDOM = {"halves_rounded_up": ["torch_dtensor", "xla_spmd"], "softmax_without_maximum": ["torch_ddp"]}
"""For these no case is drawn with this seed and few ranks: `round` of halves, and large scores over DDP."""


@pytest.mark.parametrize(
    ("fault", "backends", "chosen"),
    [
        ("deadlock", ("tpu_ddp@torch_tpu", "tpu_tp@torch_tpu"), ("tpu_ddp@torch_tpu",)),
        ("deadlock", ("torch_ddp@newest",), ("torch_ddp@newest",)),
        ("mesh_axes_swapped", ("tpu_tp@torch_tpu",), ("tpu_tp@torch_tpu",)),
        ("mesh_axes_swapped", ("tpu_compile@torch_tpu",), ()),
        ("recompile", ("tpu_ddp@torch_tpu",), ()),
        ("recompile", (), ("xla_spmd",)),
    ],
)
def test_a_fault_is_planted_into_the_named_backends_that_can_have_it(
    fault: str, backends: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    assert chosen_defects(fault, backends) == [(all_faults()[fault], backend) for backend in chosen]


def test_the_backends_of_torch_tpu_can_have_the_faults_of_torch() -> None:
    backends = ("tpu_ddp@torch_tpu", "tpu_fsdp@torch_tpu", "tpu_dtensor@torch_tpu", "tpu_tp@torch_tpu")
    planted = chosen_defects("", backends)
    assert {backend for _, backend in planted} == set(backends)
    for backend in backends:
        same = load(profile(backend).same_as)
        own, lent = (inspect.unwrap(module.unsupported) for module in (load(backend), same))
        assert own is lent, "beside what its device lacks"
        assert load(backend).SIDE != same.SIDE


@pytest.mark.nightly  # drawing cases of all paths takes minutes
def test_cases_are_drawn_that_can_show_a_fault_on_each_of_its_backends() -> None:
    faults = [fault for fault in all_faults().values() if not fault.least_gpus]
    out_of_reach = {fault.name: backends for fault in faults if (backends := out_of_reach_of(fault))}
    assert out_of_reach == SELDOM


def out_of_reach_of(fault: PlantedFault) -> list[str]:
    """The backends of a planted fault that take none of the first cases that it reaches."""
    left = {name: load(name) for name in fault.backends}
    for case in DRAWN.showing(MOST_CASES, fault):
        run = twin(case) if fault.in_torch else case
        left = {
            name: backend
            for name, backend in left.items()
            if not fault.reaches(case) or backend.unsupported(run)
        }
        if not left:
            break
    return sorted(left)
