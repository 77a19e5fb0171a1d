"""A zygote imports the frameworks of its Python and this project's modules in any working directory."""

import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, Popen

import msgspec
import psutil
import pytest
from installed_packages import needs

import difftest
import workers
from difftest.ground.errors import InfrastructureError
from difftest.ground.own_folder import own_folder
from workers.isolate import messages, zygotes
from workers.isolate.messages import Began, Ended, RankRequest, Ready, Work, ZygoteRequest
from workers.isolate.zygotes import Zygote

IN_A_CHECKOUT = """
import subprocess, sys
from workers.isolate.zygotes import environment
where = "import workers; print(workers.__file__)"
subprocess.run([sys.executable, "-P", "-c", where], env=environment(), check=True)
"""

CONNECTS = """
import json, sys
from pathlib import Path
from workers.isolate.zygotes import Zygote
base = Zygote(("json",), Path("{folder}"))
further = Zygote(("json", "csv"), Path("{folder}"), base)
further.warm()
base.warm()
print(json.dumps([base.pid, further.pid]), flush=True)
sys.stdin.read()
"""

WARM = """
import importlib, sys, threading
from workers import child
from workers.xla import devices
from workers.torch import process_groups
for name in devices.PRELOAD:
    importlib.import_module(name)
child.warm(process_groups.PRELOAD)
print("torchax" in sys.modules)
child.warm(devices.PRELOAD)
print(threading.active_count(), len(sys.modules["jax._src.xla_bridge"]._backends))
before = set(sys.modules)
import numpy, torch, torch_xla
from torch_xla import runtime
from torch_xla.distributed import spmd
runtime.use_spmd()
tensor = torch.ones(2).to(torch_xla.device())
spmd.mark_sharding(tensor, spmd.Mesh(numpy.arange(1), (1,), ("x",)), ("x",))
print(sorted(name for name in set(sys.modules) - before if name.startswith(("flax", "jax", "torchax"))))
"""


def a_request(rank: int) -> RankRequest:
    """The request for a rank that has no case, at which it ends."""
    return RankRequest(
        run="x",
        rank=rank,
        work=Work(backends=(), cases=(), numbers=(), folders=(), environment={}, directory="/"),
    )


def test_messages_are_read_as_they_were_sent() -> None:
    further = ZygoteRequest(run="x", preload=("json",), address="/a", log="/b")
    for request in (a_request(3), further):
        assert messages.REQUESTS.decode(messages.line(request)) == request
    for reply in (Ready(pid=1), Began(run="x", rank=2, pid=3), Ended(pid=3, status=-9)):
        assert messages.REPLIES.decode(messages.line(reply)) == reply


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('{"type": "rank", "run": "x", "rank": 0}', "required field `work`"),
        ('{"type": "zygote", "run": "x", "preload": "json", "address": "", "log": ""}', "Expected `array`"),
        (
            '{"type": "zygote", "run": "x", "preload": [], "address": "", "log": "", "b": 0}',
            "unknown field",
        ),
        ('{"type": "ready", "pid": 1}', "Invalid value 'ready'"),
    ],
)
def test_a_request_of_another_form_is_refused(message: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        messages.REQUESTS.decode(message)


def open_files() -> set[tuple[str, str]]:
    """The process's file descriptors, each with its file: a number is used again once it is free."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            found.add((entry.name, str(entry.readlink())))
    return found


@pytest.mark.long
def test_a_zygote_imports_the_modules_of_its_parents_checkout(tmp_path: Path) -> None:
    for package in (difftest, workers):
        folder = Path(str(package.__file__)).parent
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pyproject.toml").touch()
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CHECKOUT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (str(tmp_path / "workers" / "__init__.py"), "")


def test_installed_modules_need_no_python_path_and_the_users_path_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygotes, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/a:/b")
    monkeypatch.setenv("DIFFTEST_TEST_TOKEN", "hush")
    assert zygotes.environment()["PYTHONPATH"] == "/a:/b"
    assert "DIFFTEST_TEST_TOKEN" not in zygotes.environment()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for sockets, whose names are short."""
    with own_folder("zygotes") as made:
        yield made


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_folder_called_torch_in_the_working_directory_is_not_torch_and_no_file_of_a_zygote_stays_open(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout of pytorch has such a folder."""
    needs("torch", reason="needs torch")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('a checkout')")
    monkeypatch.chdir(tmp_path)
    zygote, before = Zygote(("torch",), folder), open_files()
    try:
        zygote.warm()
        opened = open_files() - before
        assert opened, "a connection"
    finally:
        zygote.stop()
    until(lambda: not opened & open_files())


@pytest.mark.slow
def test_a_module_that_cannot_be_imported_is_the_reason_that_is_given(folder: Path) -> None:
    needs("torch", reason="needs torch")
    base = Zygote(("json",), folder)
    for zygote in (Zygote(("nowhere",), folder), Zygote(("json", "nowhere"), folder, base)):
        with pytest.raises(
            InfrastructureError, match="did not start: ModuleNotFoundError: No module named 'nowhere'"
        ):
            zygote.warm()
    base.warm()
    base.stop()


@pytest.mark.slow
def test_a_zygote_that_others_still_use_is_left_to_them_without_a_warning(folder: Path) -> None:
    needs("torch", reason="needs torch")
    first, second = Zygote(("json",), folder), Zygote(("json",), folder)
    first.warm()
    second.warm()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        first.stop()
        del first
        gc.collect()
    second.stop()
    assert [one for one in shown if one.category is ResourceWarning] == []


@pytest.mark.slow
def test_two_requests_that_arrive_together_start_two_ranks(folder: Path) -> None:
    needs("torch", reason="needs torch")
    zygote = Zygote(("json",), folder)
    zygote.warm()
    (address,) = folder.glob("*.socket")
    requests = b"".join(messages.line(a_request(rank)) for rank in range(2))
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as received:
        connection.connect(str(address))
        connection.sendall(requests)
        assert messages.REPLIES.decode(received.readline()) == Ready(pid=zygote.pid)
        replies = [messages.REPLIES.decode(received.readline()) for _ in range(4)]
    zygote.stop()
    assert {reply.rank for reply in replies if isinstance(reply, Began)} == {0, 1}
    assert [reply.status for reply in replies if isinstance(reply, Ended)] == [1, 1], "they have no case"


@pytest.mark.slow
def test_processes_that_share_a_folder_share_a_zygote_which_ends_with_the_last_of_them(folder: Path) -> None:
    needs("torch", reason="needs torch")
    connect = CONNECTS.format(folder=str(folder))
    command = [sys.executable, "-c", connect]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=os.environ) as starter:
        assert starter.stdin
        assert starter.stdout
        pids = json.loads(starter.stdout.readline())
        base = Zygote(("json",), folder)
        further = Zygote(("json", "csv"), folder, base)
        further.warm()
        base.warm()
        assert [base.pid, further.pid] == pids
        assert psutil.Process(further.pid).ppid() == base.pid
        starter.kill()
    replies = further.open("x")
    further.fork(a_request(0))
    began, ended = replies.get(timeout=60), replies.get(timeout=60)
    assert isinstance(began, Began)
    assert began.rank == 0
    assert ended == Ended(pid=began.pid, status=1), "it has no case"
    first = psutil.Process(base.pid)
    further.stop()
    base.stop()
    until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
@pytest.mark.xla
def test_a_zygote_of_xla_has_what_torch_xla_looks_for_at_its_first_annotation_and_no_client() -> None:
    """One of torch has not, though a model imports torch_xla, as diffusers does.

    torchax renames a device of torch's, and its barriers then ask for hooks of that.
    """
    needs("torch_xla", reason="needs torch_xla")
    for name in ("torchax", "flax"):
        if find_spec(name) is None:
            pytest.skip("needs torchax: pip install -e '.[torchax]'")
    environment = zygotes.environment() | {"PJRT_DEVICE": "CPU"}
    done = subprocess.run(
        [sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["False", "1 0", "[]"], done.stderr
