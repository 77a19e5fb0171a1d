"""DTensor's rules in a run: for every operator the placements of its operands and of its results.

DTensor asks its sharding propagation at every operator, also where it has the answer in its cache. It is
asked as ever, and the answer is written down. A torch whose dispatcher does not ask it (any more) leaves
nothing to write down.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from difftest.cases.inputs import without_input
from difftest.judge.events import Events
from difftest.judge.reached import Reached

if TYPE_CHECKING:
    from torch import nn

    from difftest.cases.case import Case
    from workers.training.dispatched import Direction

MOST_CHARACTERS = 200


_CACHED_FOR = deque["Case"](maxlen=1)
"""The last case in this process, without its input."""


def forget(case: "Case") -> None:
    """Empties the cache of DTensor's sharding propagation in this process, unless it is of the same case.

    With torch 2.9.0 `select` of a replica writes its result's shape into what is cached for the operator that
    made the replica. That operator has a wrong shape from then on, in a later program of the process too. A
    case of several steps shows that by itself, so that its further inputs may find what the first one left:
    two thirds of the time of a step are propagation.
    """
    from torch.distributed.tensor import DTensor

    common = without_input(case)
    stays = common in _CACHED_FOR and case.training.steps > 1
    _CACHED_FOR.append(common)
    if stays:
        return

    dispatcher = getattr(DTensor, "_op_dispatcher", None)
    propagator: Any = getattr(dispatcher, "sharding_propagator", None)
    with suppress(AttributeError):
        propagator.propagate_op_sharding.cache.cache_clear()


class Rules:
    """Collects rules while one of its `observe` contexts is open."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._answers: dict[int, object] = {}

    @contextmanager
    def observe(self, _direction: "Direction", _module: "nn.Module") -> Iterator[None]:
        """Collects what DTensor's dispatcher is given inside."""
        from torch.distributed.tensor import DTensor

        dispatcher = getattr(DTensor, "_op_dispatcher", None)
        propagator: Any = getattr(dispatcher, "sharding_propagator", None)
        propagate = getattr(propagator, "propagate", None)
        if propagate is None:
            yield
            return

        def noted(op_info: Any) -> Any:  # noqa: ANN401  private types of torch
            result = propagate(op_info)
            answer = op_info.output_sharding
            if id(answer) not in self._answers:  # DTensor gives the same object for the same operands
                self._answers[id(answer)] = answer
                with suppress(AttributeError, TypeError):  # a run must not fail for want of a note
                    self._names.add(_rule(op_info)[:MOST_CHARACTERS])
            return result

        propagator.propagate = noted
        try:
            yield
        finally:
            propagator.propagate = propagate

    def events(self) -> Events:
        """The rules collected so far, of a run in which torch dispatched what it always does."""
        return Events(reached=Reached(eager=True, rules=tuple(sorted(self._names))))


def _rule(op_info: Any) -> str:  # noqa: ANN401  a private type of torch
    """An operator with its placements, as `mm S0,R>S0`; a result without placements is left out."""
    schema, sharding = op_info.schema, op_info.output_sharding
    name = schema.op._schema.name.removeprefix("aten::")  # noqa: SLF001  no public name
    return f"{name} {','.join(map(_placed, schema.args_spec))}>{','.join(_results(sharding.output_spec))}"


def _results(spec: Any) -> Iterator[str]:  # noqa: ANN401  a private type of torch, or a sequence of it
    if isinstance(spec, list | tuple):
        for one in spec:
            yield from _results(one)
    elif spec is not None:
        yield _placed(spec)


def _placed(spec: Any) -> str:  # noqa: ANN401  a private type of torch
    """A letter and the dim for each mesh axis: `S0`, `R` or `P`; `_` before what only torch itself makes."""
    return "".join(_letter(placement) for placement in spec.placements)


def _letter(placement: Any) -> str:  # noqa: ANN401  torch's placements
    if placement.is_replicate():
        return "R"
    if placement.is_partial():
        return "P"
    strided = "_" if type(placement).__name__ != "Shard" else ""
    return f"{strided}S{placement.dim}"
