"""An exception in a rank: whose fault it is, and the failure that it is recorded as.

An exception is a result of the framework's, unless its type or its message says that the machine lacks
something.
"""

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch

from difftest.ground import installed
from difftest.ground.errors import UnsupportedError, UsageError
from difftest.judge.outcome import NO_DETERMINISTIC, NO_MESSAGE, Failure, Symptom
from difftest.judge.stage import Stage
from workers.gpus import ON_GPUS, PLATFORMS
from workers.missing_packages import is_required, missing_package

OURS = Path(__file__).parent
"""The folder of our own code that runs in a rank: this module must lie directly in the package `workers`."""

MESSAGE_CHARACTERS = 4000
LOG_CHARACTERS = 2**16
"""How much of a failure's first line and of its traceback is kept.

Frameworks may put a whole tensor into a message.
"""

MACHINE_ERRORS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ENFILE,
    errno.EMFILE,
    errno.ENOMEM,
    errno.EAGAIN,
)
"""The errors of the operating system that mean that the machine lacks something; no framework's fault."""

EXHAUSTED = re.compile(r"(?i:out of memory)|ALLOC_FAILED")
"""How torch, the driver, cuBLAS and XLA report that a GPU has no memory left."""

BROKEN = re.compile(
    r"ECC error|busy or unavailable|driver version is insufficient|no kernel image is available"
    r"|TPU is already in use|Device or resource busy|No space left on device"
)
"""What is reported where the machine is broken or in use by another process; no framework's fault.

A GPU is broken, in exclusive use by another process, or not supported by this torch; another process has the
TPU; the disk or the memory that NCCL's ranks share is full.
"""

ASYNCHRONOUS = "CUDA error"
"""How a kernel's error begins.

It shows at whatever call comes next, so the place of that call says nothing about it.
"""

PIPELINED = re.compile(r"\s*(\[Stage \d+\] f|F)ailed to run (stage backward|forward)")
"""How `torch.distributed.pipelining` begins where it wraps what a stage raised.

torch 2.9 does so for the forward pass of a stage, and 2.15 for its backward pass too.
"""

CAPABILITY_TYPES = (NotImplementedError,)
CAPABILITY_WORDS = (
    "does not have a sharding strategy registered",
    "is not supported",
    "not implemented for",
    "not support",
    "not currently support",
    NO_DETERMINISTIC,
    "Please redistribute",
    "of supported devices",
)
"""What marks an exception as a missing capability of the framework: its type, or words in its message."""

PROPAGATION = "Sharding propagation failed"
"""How DTensor's message begins where the rule of an operator raised, or had no answer.

It wraps whatever was raised: a refusal, which is a missing capability, or a mistake of the rule.
"""

MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)
"""The exceptions by which Python reports a mistake; nobody raises them to refuse something."""


def raise_if_of_the_machine(error: Exception) -> None:
    """Raises `OSError` where `error` means that the machine lacks something or is broken.

    A source of the user's that is not there, or is not the case's, is lacking too.
    """
    if isinstance(error, UsageError):
        raise OSError(errno.ENOENT, str(error)) from error
    if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
        raise error
    if EXHAUSTED.search(str(error)) and _others_hold_the_gpu():
        raise OSError(errno.ENOMEM, f"others hold the GPU's memory: {error}") from error
    if BROKEN.search(str(error)):
        raise OSError(errno.EIO, f"the machine cannot run this: {error}") from error


def without_package(error: Exception, modules: Sequence[str]) -> Exception:
    """`error`, or an `UnsupportedError` in its place where it means that an optional package is missing.

    Raises `OSError` where one is missing without which difftest, or the backend that imports `modules`,
    cannot run: the installation is broken.
    """
    package = missing_package(error)
    if not package:
        return error
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    words = f"{package} is not installed here ({installed.how_to_install(package)}): {first}"
    if is_required(package, modules):
        raise OSError(errno.ENOPKG, f"the installation is broken: {words}") from error
    return UnsupportedError(words).with_traceback(error.__traceback__)


def _others_hold_the_gpu() -> bool:
    """Whether other processes hold most of the GPU's memory.

    That is what is in use, less what torch keeps or JAX has held at most in this process. XLA requests all
    that a program needs in one piece: a run that wants too much may never have held much.
    """
    on_jax = os.environ.get(PLATFORMS) == ON_GPUS
    if not on_jax and not torch.cuda.is_initialized():
        return False
    try:
        free, total = torch.cuda.mem_get_info()
        held = (
            sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"]
            if on_jax
            else torch.cuda.memory_reserved()
        )
    except (AssertionError, KeyError, RuntimeError, TypeError):
        return True  # cannot be measured: no memory for a context, or a torch that was built without CUDA
    return bool(total - free - held > total / 2)


def explain(error: Exception, stage: Stage, step: int, rank: int) -> Failure:
    """An exception as data: its type, its message's first line, and the framework's innermost frame."""
    log = "".join(traceback.format_exception(error))[-LOG_CHARACTERS:]
    error = _unwrapped(error)
    late = str(error).startswith(ASYNCHRONOUS)
    frames = traceback.extract_tb(error.__traceback__)
    return Failure(
        symptom=Symptom.CAPABILITY if not late and _lacks_capability(error) else Symptom.EXCEPTION,
        stage=stage,
        step=step,
        kind=type(error).__name__,
        message=_message(error, frames)[:MESSAGE_CHARACTERS],
        frame="" if late else _frame(frames),
        log=log,
        rank=rank,
    )


def _unwrapped(error: Exception) -> Exception:
    """What `torch.compile` wraps where the traced code itself raised, and a pipeline where a stage did."""
    wrapped = getattr(error, "inner_exception", None)  # of a compiler behind TorchDynamo
    if type(error).__name__ == "TorchRuntimeError" and error.__context__:
        wrapped = error.__context__.__cause__
    elif PIPELINED.match(str(error)):
        wrapped = error.__cause__
    return wrapped if isinstance(wrapped, Exception) else error


def _lacks_capability(error: Exception) -> bool:
    """Whether the framework refuses what it cannot do, rather than fails at it."""
    text = str(error)
    if isinstance(error, CAPABILITY_TYPES) or any(words in text for words in CAPABILITY_WORDS):
        return True
    return text.startswith(PROPAGATION) and not isinstance(_root(error), MISTAKES)


def _root(error: BaseException) -> BaseException:
    """The first exception in the chain of those that `error` was raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _message(error: Exception, frames: traceback.StackSummary) -> str:
    """The first line of an exception's message.

    Where it ends with a colon, as that of `torch.compile`, the next line follows on the same line. So does
    what was raised where DTensor wraps that. Where there is no message, the source line that raised takes its
    place.
    """
    text = str(error).strip()
    if not text:
        return f"{NO_MESSAGE}{frames[-1].line}" if frames and frames[-1].line else ""
    lines, root = text.splitlines(), _root(error)
    line = " ".join(part.strip() for part in lines[: 2 if lines[0].endswith(":") else 1])
    if text.startswith(PROPAGATION) and root is not error:
        return f"{line} {type(root).__name__}: {(str(root).strip().splitlines() or [''])[0]}"
    return line


def _frame(frames: traceback.StackSummary) -> str:
    """Where an error was raised, as `file:function`, the same on every machine.

    The file of a user's module is that in the working directory.

    Empty where our own code raised it, or called a function without a Python frame that did: a fault's
    identity must not change with our names.
    """
    if not frames or Path(frames[-1].filename).is_relative_to(OURS):
        return ""
    file = frames[-1].filename.rpartition("site-packages/")[2].removeprefix(f"{Path.cwd()}/")
    return f"{file}:{frames[-1].name}"
