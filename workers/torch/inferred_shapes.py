"""The shapes of DTensor's results, which one rank infers for all ranks of a run.

DTensor runs every operator on fake tensors before it runs it on real ones, to learn shape, stride and dtype
of the global result (`ShardingPropagator._propagate_tensor_meta_non_cached` in torch 2.9.0). That takes 3 ms
for each operator with other operands, which is half of the processor time of a run of few steps. The answer
depends on the operator and the operands' global shapes alone, and not on the rank. So the first rank that
needs an answer asks torch and writes it into a file of the run, where the others find it. Rules, placements
and pieces, which may depend on a rank, stay what each rank makes of them.

torch makes a new `FakeTensorMode` for each answer, which notes the stack of its caller, and keeps each in a
cache, which is asked for none again here. One mode without that cache takes two thirds of the time.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

FILE = "inferred_shapes"
SCHEME = "file://"
_METHOD = "_propagate_tensor_meta_non_cached"
VIEWS = "detach.default", "t.default", "transpose.int", "view.default"
"""Operators of aten: the views that most ranks take of DTensors."""

_LINE = msgspec.json.Decoder(tuple[str, Any])

Answer: TypeAlias = Any
"""What torch infers: a `TensorMeta`, a list or tuple of such and of None, or None."""


@contextmanager
def inferred_once(rendezvous: str) -> Iterator[None]:
    """A context in which the ranks that meet at a file of `rendezvous` share what torch infers.

    Ranks of several machines, which meet elsewhere, each infer all of it. So do those of a torch whose
    DTensor has no such method.
    """
    from torch.distributed.tensor import _sharding_prop

    module: Any = _sharding_prop  # what is replaced is private
    propagator = module.ShardingPropagator
    infer = getattr(propagator, _METHOD, None)
    if infer is None or not rendezvous.startswith(SCHEME):
        yield
        return
    answers = InferredShapes(Path(rendezvous.removeprefix(SCHEME)).with_name(FILE))
    made = module.FakeTensorMode

    def shared(self: object, schema: Any) -> Answer:  # noqa: ANN401  private types of torch
        return answers.of(schema, lambda: infer(self, schema))

    setattr(propagator, _METHOD, shared)
    module.FakeTensorMode = _mode
    try:
        yield
    finally:
        module.FakeTensorMode = made
        setattr(propagator, _METHOD, infer)
        answers.close()


@cache
def _mode() -> Any:  # noqa: ANN401  a private type of torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode: Any = FakeTensorMode()
    mode.cache_enabled = False
    return mode


def warm() -> None:
    """Makes what torch makes in every rank at its first use: 4 ms, most of them for the schemas of views."""
    import torch
    from torch.utils import _python_dispatch

    _mode()
    if look := getattr(_python_dispatch, "get_alias_info", None):
        for view in VIEWS:
            look(attrgetter(view)(torch.ops.aten))


class InferredShapes:
    """The answers in `file`, a line of JSON each, which several processes read and extend."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._answers: dict[str, Answer] = {}
        self._read = 0

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def of(self, schema: Any, infer: Callable[[], Answer]) -> Answer:  # noqa: ANN401  a private type of torch
        """The answer for an operator and its operands; from `infer` where nobody has asked before.

        What `infer` raises is not kept: each rank has its own error. Others wait while one infers, and the
        kernel ends the wait if it dies.
        """
        question = _question(schema)
        if question is None:
            return infer()
        if question not in self._answers:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._read_on()
                if question not in self._answers:
                    self._write(question, infer())
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return self._answers[question]

    def _read_on(self) -> None:
        """Takes in what others wrote since."""
        size = os.fstat(self._descriptor).st_size
        for line in os.pread(self._descriptor, size - self._read, self._read).splitlines():
            question, answer = _LINE.decode(line)
            self._answers[question] = _answer(answer)
        self._read = size

    def _write(self, question: str, answer: Answer) -> None:
        self._answers[question] = answer
        self._read += os.write(self._descriptor, msgspec.json.encode((question, _plain(answer))) + b"\n")


def _question(schema: Any) -> str | None:  # noqa: ANN401  a private type of torch
    """An operator with all that its result's shape depends on; None where an operand is of another kind."""
    try:
        operands = _words(schema.args_schema), _words(schema.kwargs_schema)
    except TypeError:
        return None
    return f"{schema.op} {operands}"


def _words(operand: object) -> object:
    """An operand, as something whose `repr` tells it from every other one. Raises `TypeError` for others."""
    import torch
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    match operand:
        case DTensorSpec():
            if operand.tensor_meta is None or not _is_of_numbers(operand.tensor_meta):
                raise TypeError(operand)
            return operand.mesh.device_type, _plain(operand.tensor_meta)
        case list() | tuple():
            return [_words(one) for one in operand]
        case Mapping():
            return {name: _words(one) for name, one in operand.items()}
        case None | bool() | int() | float() | complex() | str():
            return operand
        case torch.dtype() | torch.device() | torch.layout() | torch.memory_format():
            return type(operand).__name__, str(operand)
    raise TypeError(operand)


def _is_of_numbers(meta: Any) -> bool:  # noqa: ANN401  a private type of torch
    """Whether the sizes are numbers, and not the symbols of a graph that is being traced."""
    return all(type(size) is int for size in (*meta.shape, *meta.stride))


def _plain(answer: Answer) -> object:
    """An answer without types of torch."""
    match answer:
        case None:
            return None
        case (shape, stride, torch_dtype) if hasattr(answer, "dtype"):
            return list(shape), list(stride), str(torch_dtype).removeprefix("torch.")
        case list() | tuple():
            return type(answer).__name__, [_plain(one) for one in answer]
    raise TypeError(answer)


def _answer(plain: Sequence[Any] | None) -> Answer:
    """What `_plain` was made of."""
    import torch
    from torch.distributed.tensor._dtensor_spec import TensorMeta

    if plain is None:
        return None
    if len(plain) == len(TensorMeta._fields):
        shape, stride, dtype = plain
        return TensorMeta(torch.Size(shape), tuple(stride), getattr(torch, dtype))
    kind, several = plain
    answers = map(_answer, several)
    return tuple(answers) if kind == tuple.__name__ else list(answers)
