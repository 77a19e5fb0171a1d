"""Hooks on the modules of a model that is training: inputs, every module's output, and its gradient.

A module that is computed again in the backward pass (activation checkpointing) is not recorded again. Inside
of what `torch.compile` compiles nothing is recorded, since additional results would change what is compiled.
"""

import dataclasses
import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from difftest.runs import layout
from difftest.runs.align import path_of
from workers.runs.collecting import DIGEST, LOSS, Collected, counted, digest
from workers.runs.keeping import given

MOST_LEAVES = 4
"""How many tensors of a module's output are recorded."""


def in_backward() -> bool:
    """Whether autograd is running the backward pass in this thread."""
    return torch._C._current_graph_task_id() != -1  # noqa: SLF001  no public equivalent


def leaves(value: object, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors in what a module takes or gives, with their places; one alone has no name."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{place}.{key}")
    elif isinstance(value, (tuple, list)):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{place}.{index}" if len(value) > 1 else place)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield from leaves(getattr(value, part.name), f"{place}.{part.name}")


def measured(tensor: Tensor) -> bool:
    """Whether a tensor is sketched: one of numbers that has dims."""
    return tensor.dim() > 0 and (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


class Mode:
    """The mode in which a model is trained: training mode, or evaluation mode while no other was seen."""

    def __init__(self) -> None:
        self._trained = False

    def is_of(self, module: nn.Module) -> bool:
        """Whether a module that is called is in this mode."""
        self._trained = self._trained or module.training
        return module.training or not self._trained


class Users:
    """Which modules take the outputs of others, as far as nothing comes between."""

    def __init__(self) -> None:
        self._made: Any = WeakIdKeyDictionary()
        self._users: dict[tuple[str, str], list[str]] = {}

    def made(self, path: str, place: str, tensor: Tensor) -> None:
        """A tensor is an output of a module."""
        self._made.setdefault(tensor, []).append((path, place))

    def take(self, path: str, arguments: object) -> None:
        """A module has taken arguments. The modules in it come before it, and stand for it."""
        for _, tensor in leaves(arguments):
            for key in self._made.get(tensor, ()):
                users = self._users.setdefault(key, [])
                if not any(user == path or user.startswith(f"{path}.") for user in users):
                    users.append(path)

    def of(self, path: str, place: str) -> Sequence[str]:
        """The innermost modules that took an output."""
        return self._users.get((path, place), ())


class TrainingHooks:
    """Records while `active` is true. `began` is called before the first forward pass of training.

    A pass of the model is a micro-batch. Some scripts never call the model itself but modules of it, such as
    an encoder and a decoder: then a step is one pass, and `@2` marks a module's third call in it. `last` is
    false for a stage of a pipeline that others follow.
    """

    def __init__(
        self,
        model: nn.Module,
        collected: Collected,
        patterns: Sequence[str],
        began: Callable[[], None],
        *,
        last: bool = True,
    ) -> None:
        self.active = False
        self.microbatch, self.samples = -1, 0
        self._collected, self._began = collected, began
        self._inside, self._mode, self._users = False, Mode(), Users()
        self._calls: Counter[str] = Counter()
        self._rows: frozenset[int] = frozenset()
        self._late: set[tuple[str, str]] = set()
        self._handles = [
            model.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True),
            model.register_forward_hook(self._leave, always_call=True),
        ]
        for path, module in named(model).items():
            if not (path or last):  # what a stage gives the next is no output of the model
                continue
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
                self._handles.append(module.register_forward_hook(partial(self._output, path), prepend=True))
            if collected.keeps(path):
                keep = partial(self._keep, path)
                self._handles.append(module.register_forward_hook(keep, prepend=True, with_kwargs=True))

    def remove(self) -> None:
        """Takes the hooks off the model."""
        for handle in self._handles:
            handle.remove()

    def reset(self, *, active: bool) -> None:
        """Begins a step, which is recorded if `active`."""
        self.active, self.microbatch, self.samples = active, -1, 0
        self._late.clear()
        self._calls.clear()

    def _enter(self, module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or not self._trains(module):
            return
        self._inside = True
        self._calls.clear()
        self._pass([*leaves(arguments), *leaves(keywords)])

    def _trains(self, module: nn.Module) -> bool:
        return torch.is_grad_enabled() and self._mode.is_of(module)

    def _pass(self, inputs: Sequence[tuple[str, Tensor]]) -> None:
        self._began()
        self.microbatch += 1
        if self.active:
            self._inputs(inputs)

    def _inputs(self, given: Sequence[tuple[str, Tensor]]) -> None:
        tensors = [(place or ".0", tensor) for place, tensor in given if tensor.dim()]
        if not tensors:
            return
        shape = tensors[0][1].shape
        self.samples += shape[0]
        sizes = (torch.Size(shape[:dims]).numel() for dims in range(1, len(shape) + 1))
        self._rows = frozenset(sizes)
        for place, tensor in tensors:
            name = place.removeprefix(".")
            data = not tensor.requires_grad  # unlike what the stage before in a pipeline sends
            if data and shape[0] and tensor.shape[0] == shape[0]:
                local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
                self._collected.add_numbers(DIGEST, name, local, digest)
                self._collected.add(layout.INPUT, name, tensor, batched=True, microbatch=self.microbatch)

    def _leave(self, _module: nn.Module, _arguments: object, output: object) -> None:
        if torch.compiler.is_compiling() or not self._inside:
            return
        self._inside = False
        if not self.active:
            return
        for _, tensor in leaves(output):
            if not tensor.dim() and tensor.dtype.is_floating_point:
                self._collected.add_numbers(LOSS, "", tensor, counted)
                break

    def _output(self, path: str, module: nn.Module, arguments: object, output: object) -> None:
        again = in_backward()
        if torch.compiler.is_compiling() or (again and not self._late):
            return
        alone = not (self._inside or again)
        if alone:
            if not self._trains(module):
                return
            if self.microbatch < 0:
                self._pass([*leaves(arguments)])
        if not self.active:
            return
        call = 0 if again else self._calls[path]
        self._calls[path] += not again
        which = f"{'@' if alone else '#'}{call}" if call else ""
        if not again:
            self._users.take(path, arguments)
        for place, tensor in list(leaves(output))[:MOST_LEAVES]:
            if measured(tensor):
                self._tensor(path, place + which, tensor, again=again)

    def _keep(
        self,
        path: str,
        module: nn.Module,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        _output: object,
    ) -> None:
        """Keeps what a module is given in its first call of a step."""
        if torch.compiler.is_compiling() or in_backward() or not (self.active and self._trains(module)):
            return
        if self.microbatch <= 0 and f"{layout.ARGUMENT}:{path}" not in self._collected.arrays:
            self._collected.arrays |= dict(given(path, module, arguments, keywords))

    def _tensor(self, path: str, place: str, tensor: Tensor, *, again: bool) -> None:
        batched = tensor.shape[0] in self._rows
        if not again:
            self._users.made(path, place, tensor)
        if not again and (batched or self.microbatch == 0):
            self._collected.add(
                layout.OUTPUT, path, tensor, place=place, batched=batched, microbatch=self.microbatch
            )
        if tensor.requires_grad and (not again or (path, place) in self._late):
            self._late.discard((path, place))
            tensor.register_hook(partial(self._gradient, path, place, self.microbatch, batched))
        elif not again:  # reentrant checkpointing gives the gradient when it computes the module again
            self._late.add((path, place))

    def _gradient(self, path: str, place: str, microbatch: int, batched: bool, gradient: Tensor) -> None:  # noqa: FBT001
        """Records a gradient. Returns nothing, since a hook's result would replace the gradient."""
        batch = self._collected.batch
        share = None
        if not batched and batch.ranks > 1 and not hasattr(gradient, "to_local"):
            words = f"the share of data-parallel rank {batch.rank} of {batch.ranks}"
            share = layout.NamedShare(name=f"p{batch.rank}/{batch.ranks}", words=words)
        self._collected.add(
            layout.OUTPUT_GRADIENT,
            path,
            gradient,
            place=place,
            batched=batched,
            microbatch=microbatch,
            factor=self._collected.averaging,
            share=share,
            users=self._users.of(path, place),
        )


class Watches:
    """Those of a model, or of the stages of a pipeline that a rank has."""

    def __init__(self, watches: Iterable[TrainingHooks]) -> None:
        self._watches = tuple(watches)

    @property
    def active(self) -> bool:
        """Whether this step is recorded."""
        return self._watches[0].active

    @active.setter
    def active(self, active: bool) -> None:
        for watch in self._watches:
            watch.active = active

    @property
    def microbatch(self) -> int:
        """The number of the last micro-batch; -1 before the first."""
        return max(watch.microbatch for watch in self._watches)

    @property
    def samples(self) -> int:
        """The samples of this step."""
        return max(watch.samples for watch in self._watches)

    def reset(self, *, active: bool) -> None:
        """Begins a step, which is recorded if `active`."""
        for watch in self._watches:
            watch.reset(active=active)

    def remove(self) -> None:
        """Takes all hooks off."""
        for watch in self._watches:
            watch.remove()


def named(model: nn.Module) -> dict[str, nn.Module]:
    """The modules by path; of a module and its wrappers the outermost."""
    modules: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        modules.setdefault(path_of(name), module)
    return modules
