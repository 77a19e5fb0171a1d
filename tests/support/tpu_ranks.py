"""A program that runs scenarios on several ranks of torch_tpu, in an environment that has it.

It imports torch once and forks the ranks. Each line of standard input is `SCENARIO RANKS SECONDS`; the answer
is a JSON line: what each rank's function returned or the message of what it raised, and the files that are
left.
"""

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workers.tpu import devices, preload, start  # before torch

assert preload.LIBRARY.is_file()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402

SHAPE = (4, 3)
OPERATIONS = ("SUM", "AVG", "MAX", "MIN", "PRODUCT")


def tensor(rank: int, rows: int = SHAPE[0]) -> torch.Tensor:
    """What a rank gives: (rows, 3) numbers that differ in every place and rank."""
    count = rows * SHAPE[1]
    return (torch.arange(count, dtype=torch.float32).reshape(rows, SHAPE[1]) - 5) * (rank + 1) / 7


def listed(result: torch.Tensor) -> object:
    return result.cpu().tolist()


def threads() -> list[str]:
    """The names of this process's threads."""
    return [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]


def collectives(rank: int, ranks: int) -> dict[str, Any]:
    results = {}
    for name in OPERATIONS:
        own = tensor(rank).to("tpu")
        dist.all_reduce(own, getattr(dist.ReduceOp, name))
        results[f"all_reduce {name}"] = listed(own)
    gathered = torch.empty(ranks * SHAPE[0], SHAPE[1], device="tpu")
    dist.all_gather_into_tensor(gathered, tensor(rank).to("tpu"))
    results["all_gather"] = listed(gathered)
    scattered = torch.empty(*SHAPE, device="tpu")
    dist.reduce_scatter_tensor(scattered, tensor(rank, ranks * SHAPE[0]).to("tpu"))
    results["reduce_scatter"] = listed(scattered)
    for source in range(ranks):
        own = tensor(rank).to("tpu")
        dist.broadcast(own, source)
        results[f"broadcast {source}"] = listed(own)
    exchanged = torch.empty(ranks * 2, SHAPE[1], device="tpu")
    dist.all_to_all_single(exchanged, tensor(rank, ranks * 2).to("tpu"))
    results["all_to_all"] = listed(exchanged)
    part = torch.empty(*SHAPE, device="tpu")
    parts = [tensor(10 + other).to("tpu") for other in range(ranks)] if rank == 0 else None
    dist.scatter(part, parts, 0)
    results["scatter"] = listed(part)
    return results


def permuted(rank: int, ranks: int) -> dict[str, Any]:
    """Collectives over the rows and columns of a mesh whose ranks are in no order."""
    mesh = DeviceMesh("tpu", [[3, 1], [2, 0]], mesh_dim_names=("rows", "columns"))
    whole = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    placed = distribute_tensor(whole.to("tpu"), mesh, (Shard(0), Shard(1)))
    results: dict[str, Any] = {"local": listed(placed.to_local()), "full": listed(placed.full_tensor())}
    moved = placed.redistribute(mesh, (Shard(1), Replicate()))
    results["moved"] = listed(moved.to_local())
    for axis in ("rows", "columns"):
        group = mesh.get_group(axis)
        summed = tensor(rank).to("tpu")
        dist.all_reduce(summed, group=group)
        results[axis] = {"ranks": dist.get_process_group_ranks(group), "sum": listed(summed)}
    return results


def alone(rank: int, _ranks: int) -> float:
    """Every rank does as many steps as its number says, and none waits for another."""
    own = torch.ones(4, device="tpu")
    for _ in range(rank + 1):
        own = own * 2
    return float(own.sum().cpu())


def compiled(rank: int, _ranks: int) -> object:
    function = torch.compile(lambda given: (given @ given.T).relu().sum(1))
    own = tensor(rank).to("tpu")
    return listed(function(own))


def many(rank: int, _ranks: int) -> float:
    own = torch.full((1,), float(rank), device="tpu")
    for _ in range(20):
        dist.all_reduce(own)
        own = own / 2
    return float(own.cpu()[0])


def different(rank: int, _ranks: int) -> object:
    own = tensor(rank).to("tpu")
    dist.all_reduce(own, dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
    return listed(own)


def absent(rank: int, _ranks: int) -> object:
    """Rank 1 does not take part."""
    own = tensor(rank).to("tpu")
    if rank != 1:
        dist.all_reduce(own)
    return listed(own)


SCENARIOS: dict[str, Callable[[int, int], Any]] = {
    one.__name__: one for one in (collectives, permuted, alone, compiled, many, different, absent)
}


def run(name: str, rank: int, ranks: int, seconds: float, folder: Path) -> None:
    """One rank: leaves what it has to say in the folder."""
    answer: dict[str, Any]
    try:
        os.environ.update(devices.environment())
        library = start.start(folder / start.EXCHANGE, ranks, rank, seconds)
        dist.init_process_group("tpu_dist", f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
        result = SCENARIOS[name](rank, ranks)
        answer = {"result": result, "exchanged": library.shim_exchanged(), "threads": threads()}
    except Exception as error:  # noqa: BLE001  it is what the test looks at
        traceback.print_exc()
        answer = {"error": str(error)}
    (folder / f"{rank}.json").write_text(json.dumps(answer))
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Answers until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what torch_tpu prints must not get among the answers
    for line in sys.stdin:
        name, ranks, seconds = line.split()
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            pids = []
            for rank in range(int(ranks)):
                pids.append(os.fork())
                if not pids[-1]:
                    run(name, rank, int(ranks), float(seconds), folder)
            statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
            files = [folder / f"{rank}.json" for rank in range(int(ranks))]
            said = [json.loads(file.read_text()) if file.exists() else {} for file in files]
            left = sorted(file.name for file in (folder / start.EXCHANGE).iterdir())
        answers.write(json.dumps({"ranks": said, "statuses": statuses, "left": left}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
