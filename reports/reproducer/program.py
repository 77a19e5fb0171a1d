"""What a template needs of a program: its tensors, its calls and the tensor at fault, as Python."""

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from difftest.cases import operands
from difftest.cases.case import Case
from difftest.cases.draws import Floats
from difftest.cases.layers.module import Construction, Module
from difftest.cases.layers.operator import Argument, Items, Named, Operand, Operator, Reference, full_name
from difftest.cases.layout import Partial, Placements, replicated
from difftest.cases.script_values import python
from difftest.judge.stage import Stage
from reports.reproducer import spelling
from reports.reproducer.fault import Fault

Writing: TypeAlias = Literal["placements", "specs", "one device"]
"""How placements are written: as DTensor has them, as torch_xla's partition specs, or not at all."""

ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
"""What of a tensor is no method."""

MEMORY: Mapping[str, str] = {
    "contiguous": "{}",
    "transposed": "{}.mT.clone(memory_format=torch.contiguous_format).mT",
    "strided": "torch.stack(({0}, {0}), -1).select(-1, 0)",
    "expanded": "{0}[:1].expand({0}.shape)",
}
"""How an operand is made to lie in memory."""

OWN = "torch.where(torch.arange(share.numel()).view(share.shape) % mesh.size(axis) == index"
SHARES: Mapping[str, str] = {
    "sum": "share * (2, -1, 0, 0)[index]",
    "avg": "share * (2, -1, 0, 0)[index] * mesh.size(axis)",
    "max": f"{OWN}, share, -share.abs() - 1)",
    "min": f"{OWN}, share, share.abs() + 1)",
}
"""What the rank at `index` of an axis holds of `share`, by how all shares give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramScript:
    """What a template needs of a program."""

    case: Case
    fault: Fault
    title: str

    @property
    def operators(self) -> tuple[tuple[str, Operator], ...]:
        """The operators by path."""
        return tuple(self.case.model.operators.items())

    @property
    def complex(self) -> bool:
        """Whether the tensor at fault is complex."""
        return self.fault.results.get(self.fault.tensor, "").startswith("complex")

    @property
    def shares(self) -> Mapping[str, str]:
        """How reductions are of which ranks hold shares, and what of `share` the rank at `index` holds."""
        every = (one for at in self.case.layout.parameters.values() for one in at)
        there = {one.reduction for one in every if isinstance(one, Partial)}
        return {name: spelled for name, spelled in SHARES.items() if name in there}

    @property
    def writes(self) -> bool:
        """Whether any operator writes into a tensor that it is given."""
        return any(operator.writes for _, operator in self.operators)

    @property
    def backward(self) -> bool:
        """Whether the script needs gradients or the loss."""
        return bool(self.fault.results) and (self.fault.stage is not Stage.FORWARD or self.fault.wants_loss)

    def lines(self, by: Writing) -> Iterator[str]:
        """The body of the function `program(place)`, which returns the tensor at fault."""
        drawn = operands.all_values(self.case)
        for path, operator in self.operators:
            for name, operand in operator.operands.items():
                yield from self._operand(f"{path}.{name}", operand, drawn[f"{path}.{name}"], by)
        inner = "    " if self.case.forms.inference else ""
        if inner:
            yield "with torch.inference_mode():"
        for path, operator in self.operators:
            yield from (f"{inner}{line}" for line in self._called(path, operator))
        if self.backward:
            yield f"loss = {' + '.join(self._weighted(name, by) for name in self.fault.results)}"
            if not self.fault.wants_loss:
                yield "loss.backward()"
        # What nobody holds when a lazy backend runs its graph is not computed.
        yield f"return {'locals()' if self.fault.fails else self._at_fault()}"

    def variable(self, name: str) -> str:
        """The variable of a tensor; the results of an operator that has several are a tuple."""
        path, _, rest = name.partition(".")
        own, _, number = rest.partition(".")
        several = len(self.operators) > 1
        chosen = f"{own}_{path}" if several else f"{own}_" if keyword.iskeyword(own) else own
        return f"{chosen}[{number}]" if number else chosen

    def _operand(self, name: str, operand: Operand, values: Floats, by: Writing) -> Iterator[str]:
        dtype = self.case.dtype if operand.dtype == "float" else operand.dtype
        variable = self.variable(name)
        tensor = f"torch.tensor({_literal(values, dtype)}, dtype=torch.{dtype})"
        if 0 in values.shape:
            tensor = f"torch.empty({tuple(values.shape)}, dtype=torch.{dtype})"
        leaf = f"place({tensor}{self.placed(name, by)})"
        gradient = operand.is_float and operand.gradient
        yield f"{variable} = {leaf}{'.requires_grad_()' if gradient else ''}"
        if not self.fault.fails and self.fault.stage is Stage.BACKWARD and self.fault.tensor == name:
            yield f"leaf = {variable}"
        copied = self.writes and gradient and operand.memory == "contiguous"
        if copied or operand.memory != "contiguous":
            source = f"{variable}.clone()" if copied else variable
            yield f"{variable} = {MEMORY[operand.memory].format(source)}"

    def placed(self, name: str, by: Writing) -> str:
        """The placements of an operand, as a further argument."""
        at = self.case.layout.parameters[name]
        dims = len(self.case.model.tensors()[name])
        return self._further(at, by, spelling.partition_spec(self.case, at, dims))

    def _further(self, at: Placements, by: Writing, spec: str) -> str:
        """Placements as a further argument; `spec` is how partition specs write them."""
        match by:
            case "placements":
                return f", {spelling.placements(at)}"
            case "specs":
                return f", {spec}"
            case "one device":
                return ""

    def _called(self, path: str, operator: Operator) -> Iterator[str]:
        """The call; an optimizer in one kernel returns nothing, and its result are the parameters."""
        call, result = self._call(path, operator), self.variable(f"{path}.output")
        if operator.form == "inplace" and isinstance(operator.arguments[0], Items):
            yield call
            call = self._spelled(path, operator.arguments[0])
        elif _takes_lists(operator):
            call = f"torch.utils._pytree.tree_leaves({call})"
        yield f"{result} = {call}"

    def _call(self, path: str, operator: Operator) -> str:
        arguments = [self._spelled(path, argument) for argument in operator.arguments]
        options = dict(operator.options)
        if operator.form == "out" and "out" in operator.operands:
            options.setdefault("out", Reference("out"))
        more = [f"{name}={self._spelled(path, value)}" for name, value in options.items()]
        if isinstance(operator, Module):
            return self._module(path, operator.call, operator.made, arguments, options)
        if not operator.call.startswith("Tensor."):
            return f"{operator.call}({', '.join((*arguments, *more))})"
        method = operator.call.removeprefix("Tensor.")
        first, *rest = arguments
        return f"{first}.{method}" + ("" if method in ATTRIBUTES else f"({', '.join((*rest, *more))})")

    def _module(
        self, path: str, name: str, made: Construction, given: list[str], options: Mapping[str, Argument]
    ) -> str:
        """A module of torch, called with the operands as its state."""
        arguments = [self._spelled(path, argument) for argument in made.arguments]
        arguments += [f"{key}={self._spelled(path, value)}" for key, value in made.options.items()]
        state = [f"{python(key)}: {self.variable(full_name(path, own))}" for key, own in made.state.items()]
        named = [f"{python(key)}: {self._spelled(path, value)}" for key, value in options.items()]
        mode = "" if made.training else ".eval()"
        inputs = f"({', '.join(given)}{',' * (len(given) == 1)})"
        return (
            f"torch.func.functional_call({name}({', '.join(arguments)}){mode}, "
            f"{{{', '.join(state)}}}, {inputs}, {{{', '.join(named)}}})"
        )

    def _spelled(self, path: str, argument: Argument) -> str:
        match argument:
            case Reference(name=name):
                return self.variable(full_name(path, name))
            case Items(items=items, kind=kind):
                inner = ", ".join(self._spelled(path, item) for item in items)
                if kind == "list":
                    return f"[{inner}]"
                return f"({inner},)" if len(items) == 1 else f"({inner})"
            case Named():
                return self._object(argument)
            case float():
                return python(argument) if np.isfinite(argument) else f'float("{argument}")'
        return python(argument)

    def _object(self, argument: Named) -> str:
        text = argument.text
        match argument.kind:
            case "dtype":
                return f"torch.{self.case.dtype if text == 'float' else text}"
            case "memory_format" | "layout":
                return f"torch.{text}"
            case "number":
                return f'{"complex" if "j" in text else "float"}("{text}")'
            case "slice":
                return f"slice({', '.join(bound or 'None' for bound in text.split(':'))})"
            case "ellipsis":
                return "..."

    def _weighted(self, name: str, by: Writing) -> str:
        """A result's share of the loss: its elements times different numbers, on a twin times its own."""
        if self.fault.right:
            weights = _literal(self.fault.right.weights[name], self.case.dtype)
            return f"({self.variable(name)} * torch.tensor({weights}, dtype=torch.{self.case.dtype})).sum()"
        result, is_complex = self.variable(name), self.fault.results[name].startswith("complex")
        result = f"torch.view_as_real({result})" if is_complex else result
        at = self._further(replicated(self.case.layout.mesh), by, f"(None,) * {result}.dim()")
        weights = f"torch.linspace(1, 2, {result}.numel()).reshape({result}.shape)"
        return f"({result}.float() * place({weights}{at})).sum()"

    def _at_fault(self) -> str:
        """The tensor at fault."""
        name = self.fault.tensor
        if self.fault.wants_loss:
            return "loss"
        if self.fault.wants_gradient:
            return "leaf.grad"
        return self.variable(name)


def _takes_lists(operator: Operator) -> bool:
    """Whether it is given several lists, as a fused optimizer is: its results may be lists themselves."""
    lists = [
        argument for argument in operator.arguments if isinstance(argument, Items) and argument.kind == "list"
    ]
    return len(lists) > 1 and all(isinstance(item, Reference) for one in lists for item in one.items)


def _literal(values: Floats, dtype: str) -> str:
    """The numbers as nested lists, each with the fewest digits that identify it."""
    if values.ndim:
        return f"[{', '.join(_literal(value, dtype) for value in values)}]"
    number = float(values)
    if dtype == "bool":
        return str(bool(number))
    if not np.isfinite(number):
        return str(number)
    if not dtype.startswith(("float", "bfloat")):
        return str(int(number))
    return python(number) if dtype == "float64" else str(np.float32(number))
