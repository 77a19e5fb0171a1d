"""Native frames of a crash: what the process prints, and the name that identifies the crash."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workers.isolate import native_frames

EXECUTE = "torch_xla::runtime::PjRtComputationClient::ExecuteReplicated"
LOG = """some warning
Native frames, innermost first:
/tmp/difftest-x/native_frames.so(+0x11d0)[0x7f00]
/lib/libc.so.6(+0x3c050)[0x7f01]
/gone/libframework.so(_ZNK9framework4nodeIiE3runEv+0x18)[0x7f02]
/gone/libframework.so(+0x99)[0x7f03]
/usr/bin/python(_PyEval_EvalFrameDefault+0x55)[0x7f04]
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/venv/site-packages/torch_xla/torch_xla.py", line 87 in sync
"""

CRASH = """
import ctypes, faulthandler, os, sys, threading
from workers.isolate import native_frames
faulthandler.enable()
native_frames.compiled().watch()
if sys.argv[1] == "abort":
    os.abort()
libc = ctypes.CDLL(None)
ready = threading.Barrier(4)
def read():
    ready.wait()
    libc.strlen(1)
threads = [threading.Thread(target=read) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
"""

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (f"{EXECUTE}(a::B const&, std::vector<int> const&)", EXECUTE),
        (
            (
                f"std::_Function_handler<void (long, long), {EXECUTE}(a::B<c> const&)"
                "::{lambda(long, e<f>)#1}>::_M_invoke(x) [clone .cold]"
            ),
            EXECUTE,
        ),
        (
            (
                "std::_Function_handler<void (), Eigen::Pool::go(std::function<void (long)>) const"
                "::{lambda()#2}>::_M_invoke(y)"
            ),
            "Eigen::Pool::go",
        ),
        (
            (
                "xla::Literal* xla::spmd::Create<xla::HLO*>(xla::Shape const&)"
                "::{lambda(auto:1)#1}::operator()<float>(float) const"
            ),
            "xla::spmd::Create",
        ),
        (
            "torch_xla::(anonymous namespace)::StepMarker(std::string[abi:cxx11] const&)",
            "torch_xla::anonymous::StepMarker",
        ),
        ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"),
        ("", ""),
    ],
)
def test_a_plain_name_has_nothing_that_differs_between_cases(name: str, plain: str) -> None:
    assert native_frames.plain(name) == plain


def test_the_innermost_frame_of_the_framework_identifies_a_crash() -> None:
    assert native_frames.crashed_in(LOG) == "framework::node::run"


def test_without_native_frames_the_python_frame_identifies_a_crash() -> None:
    _, _, python = LOG.partition("Fatal")
    assert native_frames.crashed_in(python) == "torch_xla.py:sync"
    assert native_frames.crashed_in("nothing of the kind") == ""


def test_a_readable_log_has_names_instead_of_addresses() -> None:
    text = native_frames.readable(LOG, 10_000)
    assert "  framework::node<int>::run() const\n  ? in libframework.so\n" in text
    assert "0x7f02" not in text
    assert text.startswith("some warning\n")
    assert native_frames.readable("no stack", 100) == "no stack"
    assert native_frames.readable("no stack", 5) == "stack"


def test_a_long_log_keeps_the_native_frames() -> None:
    """The Python frames of many threads follow the native ones, and only the end of a log is kept."""
    threads = "".join(f"Thread {number}\n" for number in range(200))
    text = native_frames.readable(LOG + threads, 1000)
    assert len(text) == 1000
    assert text.startswith("Native frames, innermost first:\n  framework::node<int>::run() const\n")
    assert text.endswith(threads[-400:])


@needs_compiler
def test_a_symbol_table_names_functions_that_a_library_does_not_export(tmp_path: Path) -> None:
    """The handler's own function is static, so it appears on the stack as an address."""
    library = tmp_path / "handler.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, native_frames.SOURCE], check=True)  # noqa: S607
    script = f"import ctypes, os; ctypes.CDLL({str(library)!r}).watch(); os.abort()"
    died = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    address = re.search(r"handler\.so\(\+0x([0-9a-f]+)\)", died.stderr)
    assert address
    offset = int(address[1], 16)
    assert native_frames.Frame("", offset, str(library)).function() == "print_frames"
    assert not native_frames.Frame("", offset, str(tmp_path / "none.so")).function()
    assert not native_frames.Frame("", offset, __file__).function()


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize(("how", "number"), [("abort", signal.SIGABRT), ("threads", signal.SIGSEGV)])
def test_a_process_prints_its_frames_once_and_dies_of_its_own_signal(
    how: str, number: signal.Signals
) -> None:
    """Several threads that crash together also print once."""
    for _ in range(5):
        died = subprocess.run(
            [sys.executable, "-c", CRASH, how], capture_output=True, text=True, check=False, timeout=30
        )
        assert died.returncode == -number
        assert died.stderr.count("Native frames") == 1
        assert "Fatal Python error" in died.stderr
