"""The numbers of an HLO module, without XLA: by numpy, on all devices in step.

Every instruction is evaluated for all devices before the next one, so that a collective has what each of them
holds. The numbers are in the element types of the module or, `wide`, in greater precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from difftest.passes import elementwise
from difftest.passes.alone import ALONE, Value
from difftest.passes.arrays import Array, Each, NotEvaluatedError, rounded
from difftest.passes.hlo import Computation, HloModule, Instruction, Shape
from difftest.passes.together import TOGETHER


def evaluate(module: HloModule, arguments: Sequence[Sequence[Array]], *, wide: bool = False) -> Each:
    """The result of the entry for each device.

    `arguments` have an array for each device, parameter by parameter. `UnsupportedError` names an
    instruction that cannot be evaluated.
    """
    machine = Machine(module, wide=wide)
    with np.errstate(all="ignore"):
        return machine.run(module.entry, [list(each) for each in arguments])


@dataclass(frozen=True)
class Machine:
    """What evaluates the computations of a module."""

    module: HloModule
    wide: bool
    steps: list[int] = field(default_factory=lambda: [0])

    @property
    def devices(self) -> int:
        """How many there are: the partitions of every replica."""
        return self.module.partitions * self.module.replicas

    def run(self, computation: Computation, arguments: Sequence[Each]) -> Each:
        """The result for each device."""
        return self.values(computation, arguments)[computation.root]

    def values(self, computation: Computation, arguments: Sequence[Each]) -> dict[str, Each]:
        """What each instruction gives on each device, of those that the result needs."""
        values = dict[str, Each]()
        for instruction in computation.needed:
            if instruction.opcode == "parameter":
                values[instruction.name] = list(arguments[int(instruction.text)])
            else:
                operands = [values[name] for name in instruction.operands]
                values[instruction.name] = self._value(instruction, operands, computation)
        return values

    def _value(self, instruction: Instruction, operands: Sequence[Each], computation: Computation) -> Each:
        if (together := TOGETHER.get(instruction.opcode)) is not None:
            return together(self, instruction, operands)
        shapes = [computation.by_name[name].shape for name in instruction.operands]
        same = all(all(value is each[0] for value in each) for each in operands)
        if same:  # the devices hold the same, so it is computed once
            return [self._alone(instruction, [each[0] for each in operands], shapes)] * self.devices
        return [
            self._alone(instruction, [each[device] for each in operands], shapes)
            for device in range(self.devices)
        ]

    def _alone(self, instruction: Instruction, operands: Sequence[Any], shapes: Sequence[Shape]) -> Value:
        """The value on one device."""
        opcode = instruction.opcode
        result: Any
        if opcode in elementwise.UNARY:
            result = elementwise.UNARY[opcode](operands[0])
        elif opcode in elementwise.BINARY:
            result = elementwise.BINARY[opcode](operands[0], operands[1])
        elif opcode in ALONE:
            result = ALONE[opcode](self, instruction, operands, shapes)
        else:
            msg = f"the instruction {opcode} is not evaluated"
            raise NotEvaluatedError(msg)
        return result if isinstance(result, tuple) else self.held(result, instruction.shape)

    def held(self, array: Any, shape: Shape) -> Array:  # noqa: ANN401  what numpy makes
        """An array as an array of this shape's type holds it."""
        return rounded(array, shape.type, wide=self.wide)

    def scalars(self, name: str, arrays: Sequence[Array]) -> Any:  # noqa: ANN401  an array, or a tuple
        """The computation of scalars applied to every element of arrays."""
        alone = Machine(self.module.on_one_device, wide=self.wide, steps=self.steps)
        return alone.run(self.module.computations[name], [[array] for array in arrays])[0]
