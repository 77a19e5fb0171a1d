"""The process group that runs in the same processes keep, and what DTensor caches for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import a_case

from difftest.cases.case import Case, Training
from difftest.cases.inputs import without_input
from difftest.cases.layout import Mesh

torch = pytest.importorskip("torch")

from torch import distributed  # noqa: E402  after the check for torch
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor  # noqa: E402

from workers.torch import joining, rules  # noqa: E402
from workers.torch.joining import RankPlace  # noqa: E402

pytestmark = pytest.mark.slow

ONE, TWO = Mesh((("dp", 1),)), Mesh((("dp", 1), ("tp", 1)))


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    yield
    joining.leave()


def join(mesh: Mesh, folder: Path, name: str) -> DeviceMesh:
    place = RankPlace(rank=0, mesh=mesh, device=torch.device("cpu"), transport="gloo")
    return joining.join(place, f"file://{folder / name}", {})


def test_the_next_run_has_the_group_of_the_last_one_where_it_asks_for_the_same_mesh(tmp_path: Path) -> None:
    first = join(ONE, tmp_path, "first")
    assert join(ONE, tmp_path, "second") is first
    assert not (tmp_path / "second").exists(), "nobody meets there"
    other = join(TWO, tmp_path, "third")
    assert other is not first
    assert distributed.is_initialized()


def test_a_group_that_was_left_is_joined_again(tmp_path: Path) -> None:
    first = join(ONE, tmp_path, "first")
    joining.leave()
    assert not distributed.is_initialized()
    joining.leave()
    assert join(ONE, tmp_path, "second") is not first


def a_training(steps: int, seed: int = 0) -> Case:
    return a_case(training=Training(steps=steps), seed=seed)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (a_training(2), a_training(2, seed=1), True),
        (a_training(1), a_training(1, seed=1), False),
        (a_training(2), a_training(3), False),
    ],
    ids=["another input", "another input of one step", "another case"],
)
def test_the_cache_of_propagation_stays_for_the_inputs_of_a_case_of_several_steps(
    tmp_path: Path, first: Case, second: Case, *, kept: bool
) -> None:
    propagation = DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding  # noqa: SLF001
    mesh = join(ONE, tmp_path, "meeting")
    rules.forget(first)
    distribute_tensor(torch.ones(2), mesh, [Replicate()]).sin()
    assert propagation.cache.cache_info().currsize
    rules.forget(second)
    assert bool(propagation.cache.cache_info().currsize) is kept


def test_inputs_of_a_case_have_all_but_seed_and_regime_in_common() -> None:
    assert without_input(a_training(2)) == without_input(a_training(2, seed=1))
    assert without_input(a_training(2)) != without_input(a_training(3))
