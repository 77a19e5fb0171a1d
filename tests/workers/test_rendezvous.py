"""Ranks of several nodes meet where no stranger can take part: who lacks the secret has nothing to join."""

import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from real_runs import DDP, small_case

from difftest.ground.errors import InfrastructureError
from difftest.jobs.proof.correct_runs import same_bits
from difftest.judge.divergence import without_numbers
from difftest.judge.outcome import Outcome, Trace
from workers.isolate import sandbox
from workers.isolate.ranks import NodeShare
from workers.torch import rendezvous

LOOPBACK = "127.0.0.1"
PATIENCE = timedelta(seconds=60)
DEADLINE_SECONDS = 60.0


def test_a_reserved_port_is_nobody_elses_and_its_own_rank_can_listen_on_it() -> None:
    with rendezvous.reserved(LOOPBACK) as place, socket.socket() as stranger:
        with pytest.raises(OSError, match="in use"):
            stranger.bind(place.getsockname())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place.getsockname(), timeout=5)
        with rendezvous._bound(*place.getsockname()) as own:  # noqa: SLF001  as rank 0 does
            own.listen()
            socket.create_connection(place.getsockname(), timeout=5).close()


def test_every_run_has_another_secret_that_no_fingerprint_contains() -> None:
    with rendezvous.reserved(LOOPBACK) as place:
        first, second = rendezvous.url(place), rendezvous.url(place)
    assert first != second
    assert re.fullmatch(r"tcp://127\.0\.0\.1:\d+/\d{39}", first)
    assert without_numbers(first) == without_numbers(second)


def test_the_interface_towards_a_rendezvous_is_the_one_with_the_address() -> None:
    assert rendezvous.interface(f"tcp://{LOOPBACK}:1/2") == "lo"
    assert rendezvous.interface("tcp://[::1]:1/2") is None


@pytest.mark.slow
def test_a_store_listens_on_its_own_address_and_shows_strangers_nothing() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
    with rendezvous.reserved(LOOPBACK) as place:
        address = rendezvous.url(place)
        ours = rendezvous.store(address, 0, PATIENCE)
        port = place.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=5)
        ours.set("who", "rank 0")
        stranger = torch.distributed.TCPStore(LOOPBACK, port, timeout=PATIENCE, wait_for_workers=False)
        stranger.set("who", "a stranger")
        assert rendezvous.store(address, 1, PATIENCE).get("who") == b"rank 0"


STRANGER = """
import socket, sys, time
from datetime import timedelta
from torch.distributed import ProcessGroupGloo, TCPStore

address, short = ("127.0.0.1", int(sys.argv[1])), timedelta(seconds=1)
print("ready", flush=True)
while True:
    try:
        socket.create_connection(address).close()
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
store = TCPStore(*address, wait_for_workers=False)
print("connected", flush=True)
store.set_timeout(short)
try:
    ProcessGroupGloo(store, 1, 2, short)
    print("joined")
except RuntimeError:
    print("not joined")
"""
"""Joins as rank 1 whoever serves a port of this machine."""


def run_share(ranks: range, address: str) -> Outcome:
    return sandbox.run(
        small_case(), DDP, deadline=DEADLINE_SECONDS, share=NodeShare(ranks=ranks, rendezvous=address)
    )


@pytest.mark.slow
def test_a_stranger_who_comes_first_neither_takes_part_nor_changes_the_run() -> None:
    """It calls itself rank 1 of the same run, with torch's own means, from before the run begins."""
    with rendezvous.reserved(LOOPBACK) as place, ThreadPoolExecutor(2) as nodes:
        command = [sys.executable, "-c", STRANGER, str(place.getsockname()[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "ready\n"
            address = rendezvous.url(place)
            shares = [nodes.submit(run_share, range(1), address)]
            assert stranger.stdout.readline() == "connected\n"
            shares.append(nodes.submit(run_share, range(1, 2), address))
            outcomes = [share.result() for share in shares]
            assert stranger.stdout.read() == "not joined\n"
    traces = [outcome for outcome in outcomes if isinstance(outcome, Trace)]
    assert len(traces) == 2, outcomes
    assert same_bits(traces[0].merged(traces[1]), sandbox.run(small_case(), DDP))


@pytest.mark.slow
def test_a_port_that_was_taken_after_all_is_the_machines_fault_and_no_finding() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        with pytest.raises(InfrastructureError, match=r"the ranks did not meet at 127\.0\.0\.1:\d+: "):
            run_share(range(1), f"{rendezvous.url(listener)}")
