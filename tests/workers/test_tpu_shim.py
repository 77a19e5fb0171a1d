"""Our PJRT plugin, by which torch_tpu runs on XLA:CPU: real ranks, real programs, against numpy."""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpu_made import Program, needs_torch_tpu

pytestmark = [pytest.mark.slow, pytest.mark.xla, needs_torch_tpu]

LIMIT_SECONDS = 240
SHAPE = (4, 3)
REDUCTIONS = {
    "SUM": np.add,
    "AVG": np.add,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "PRODUCT": np.multiply,
}


class Ranks:
    """The program `tpu_ranks.py`, started once for all tests of this file."""

    def __init__(self, log: Path) -> None:
        self._program = Program("tpu_ranks.py", log)
        self.end = self._program.end

    def run(self, scenario: str, ranks: int, seconds: float = LIMIT_SECONDS) -> dict[str, Any]:
        """What the ranks say; a rank waits `seconds` for another."""
        answer: dict[str, Any] = json.loads(self._program.answer(f"{scenario} {ranks} {seconds}"))
        assert answer["statuses"] == [0] * ranks, self._program.log
        return answer

    def results(self, scenario: str, ranks: int) -> list[Any]:
        """What the ranks' functions returned."""
        said = self.run(scenario, ranks)["ranks"]
        assert all("result" in one for one in said), said
        return [one["result"] for one in said]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    started = Ranks(tmp_path_factory.mktemp("ranks") / "log")
    yield started
    started.end()


def given(rank: int, rows: int = SHAPE[0]) -> NDArray[np.float64]:
    """What `tpu_ranks.tensor` gives, in float64."""
    numbers: NDArray[np.float64] = np.arange(rows * SHAPE[1], dtype=np.float64)
    return (numbers.reshape(rows, SHAPE[1]) - 5) * (rank + 1) / 7


@pytest.mark.parametrize("size", [2, 4])
def test_every_collective_agrees_with_numpy(ranks: Ranks, size: int) -> None:
    results = ranks.results("collectives", size)
    for name, operation in REDUCTIONS.items():
        expected = reduce(operation, map(given, range(size))) / (size if name == "AVG" else 1)
        for result in results:
            assert np.allclose(result[f"all_reduce {name}"], expected, rtol=1e-6), name
    whole = np.concatenate([given(rank) for rank in range(size)])
    summed = np.add.reduce([given(rank, size * SHAPE[0]) for rank in range(size)])
    for rank, result in enumerate(results):
        own = slice(rank * SHAPE[0], (rank + 1) * SHAPE[0])
        assert np.allclose(result["all_gather"], whole, rtol=1e-6)
        assert np.allclose(result["reduce_scatter"], summed[own], rtol=1e-6)
        for source in range(size):
            assert np.allclose(result[f"broadcast {source}"], given(source), rtol=1e-6)
        sent = [given(other, size * 2)[rank * 2 : rank * 2 + 2] for other in range(size)]
        assert np.allclose(result["all_to_all"], np.concatenate(sent), rtol=1e-6)
        assert np.allclose(result["scatter"], given(10 + rank), rtol=1e-6)


def test_the_axes_of_a_mesh_whose_ranks_are_in_no_order_are_groups_of_their_own(ranks: Ranks) -> None:
    """Each program has two of the four ranks. torch sorts the ranks of a group, over gloo too."""
    mesh, whole = np.array([[3, 1], [2, 0]]), np.arange(24.0).reshape(6, 4)
    for rank, result in enumerate(ranks.results("permuted", 4)):
        row, column = (int(index[0]) for index in np.nonzero(mesh == rank))
        groups = {"rows": sorted(mesh[:, column].tolist()), "columns": sorted(mesh[row].tolist())}
        above, left = (groups[axis].index(rank) for axis in ("rows", "columns"))
        assert np.array_equal(result["full"], whole)
        assert np.array_equal(result["local"], whole[above * 3 : above * 3 + 3, left * 2 : left * 2 + 2])
        assert np.array_equal(result["moved"], whole[:, above * 2 : above * 2 + 2])
        for axis, members in groups.items():
            assert result[axis]["ranks"] == members
            assert np.allclose(result[axis]["sum"], sum(map(given, members)), rtol=1e-6)


def test_a_program_without_collectives_waits_for_nobody(ranks: Ranks) -> None:
    answer = ranks.run("alone", 2)
    assert [one["result"] for one in answer["ranks"]] == [8.0, 16.0]
    assert [one["exchanged"] for one in answer["ranks"]] == [0, 0]
    assert answer["left"] == []


def test_a_compiled_program_runs(ranks: Ranks) -> None:
    """torch_tpu asks in which memory its outputs are, which the CPU plugin does not answer."""
    for rank, result in enumerate(ranks.results("compiled", 2)):
        own = given(rank)
        assert np.allclose(result, np.maximum(own @ own.T, 0).sum(1), rtol=1e-5)


def test_ranks_remove_what_the_others_have_read(ranks: Ranks) -> None:
    answer = ranks.run("many", 2)
    assert [one["result"] for one in answer["ranks"]] == [0.5, 0.5]
    assert [one["exchanged"] for one in answer["ranks"]] == [20, 20]
    assert answer["left"] == ["0.1-18-0", "0.1-18-1", "0.1-19-0", "0.1-19-1"]


def test_torch_tpu_is_called_back_on_a_thread_that_no_program_needs(ranks: Ranks) -> None:
    """The CPU plugin's own threads hung: a callback waited there for a program that waited for its thread."""
    for said in ranks.run("many", 2)["ranks"]:
        assert said["threads"].count("shim_callbacks") == 1


def test_ranks_that_run_different_programs_are_told(ranks: Ranks) -> None:
    for rank, said in enumerate(ranks.run("different", 2)["ranks"]):
        assert f"ranks run different programs: rank {1 - rank} runs" in said["error"]
        assert "execution 0 of the ranks 0.1" in said["error"]


def test_a_rank_that_waits_in_vain_names_the_other_and_the_program(ranks: Ranks) -> None:
    waiting, absent = ranks.run("absent", 2, seconds=3)["ranks"]
    assert "result" in absent
    assert "s for rank 1 in program " in waiting["error"]
    assert "execution 0 of the ranks 0.1" in waiting["error"]
