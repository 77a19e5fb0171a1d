"""Runs the training scripts of the tests on several ranks: processes forked from this one, over gloo."""

import importlib
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from difftest.ground import installed

SCRIPTS = Path(__file__).parents[1] / "training_scripts"

SECONDS = 120.0
"""After this time ranks count as hanging."""


def launch(
    script: str, ranks: int = 1, *, prepare: Callable[..., None] | None = None, **variables: object
) -> Any:  # noqa: ANN401
    """What `main` of a script returns on rank 0, in so many forked processes with these variables.

    `prepare(model, step, rank)` is called before each step: tests plant faults with it.
    """
    given = {name.upper(): str(value) for name, value in variables.items()}
    return _ranks(ranks, partial(_run, script, given, prepare))


def in_ranks(ranks: int, work: Callable[..., None], *arguments: object) -> None:
    """Calls a function in so many forked processes, which have joined a process group of gloo."""
    _ranks(ranks, partial(_work, work, arguments))


def _ranks(ranks: int, run: Callable[[dict[str, str], Connection], None]) -> Any:  # noqa: ANN401
    _prepare()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    context = multiprocessing.get_context("fork")
    processes, ends = [], []
    for rank in range(ranks):
        here, there = context.Pipe(duplex=False)
        own = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
        process = context.Process(target=run, args=(own, there))
        process.start()
        there.close()
        processes.append(process)
        ends.append(here)
    results = [_received(end) for end in ends]
    patience = SECONDS if all(worked for worked, _ in results) else 1.0
    for process in processes:
        process.join(patience)
        process.kill()
    failures = [result for worked, result in results if not worked]
    assert not failures, failures[0]
    return results[0][1]


def _prepare() -> None:
    """Does once what every rank does: an optimizer imports torch's compiler, a recorder lists packages."""
    importlib.import_module("torch._dynamo")
    installed.everything()


def _received(end: Connection) -> tuple[bool, Any]:
    if not end.poll(SECONDS):
        return False, "a rank gave no result in time"
    try:
        received: tuple[bool, Any] = end.recv()
    except EOFError:
        return False, "a rank died"
    return received


def _run(
    script: str,
    given: dict[str, str],
    prepare: Callable[..., None] | None,
    own: dict[str, str],
    end: Connection,
) -> None:
    os.environ.update({**given, **own})
    os.environ.setdefault("OUT", "")

    def main() -> list[Any]:
        module = importlib.import_module(f"training_scripts.{script}")
        result = module.main(prepare) if prepare else module.main()
        return [value.double().numpy() for value in result]

    _answered(main, end)


def _work(
    work: Callable[..., None], arguments: tuple[object, ...], own: dict[str, str], end: Connection
) -> None:
    import torch  # noqa: PLC0415  the other tests of this process may not need it
    from torch import distributed  # noqa: PLC0415

    torch.set_num_threads(1)  # a forked process waits for ever for the threads of the first
    os.environ.update(own)

    def main() -> None:
        distributed.init_process_group("gloo")
        work(*arguments)
        distributed.destroy_process_group()

    _answered(main, end)


def _answered(main: Callable[[], object], end: Connection) -> None:
    """Sends what a function returns, or why it failed, and ends this process."""
    try:
        end.send((True, main()))
    except BaseException:  # noqa: BLE001  the test prints it
        end.send((False, traceback.format_exc()))
    finally:
        end.close()
        os._exit(0)
